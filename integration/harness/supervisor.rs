//! A shell beside each server, which ends the server when the test ends.
//!
//! A test may be killed at any moment, and then runs no destructor. So each
//! server is the child of a small shell that reads orders from a pipe. The pipe
//! closes when the test process ends, however it ends; the shell then kills the
//! server and removes its folder. As the server's parent it also knows without
//! doubt whether the server lives, so a signal never meets a stranger's process.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, ensure};

/// `$1` is the folder to remove in the end, the rest is the server's command line.
///
/// The shell ignores signals, since it must clean up: SIGPIPE comes when the
/// test dies between an order and its answer, and SIGHUP when it dies while the
/// server is paused (the kernel sends that to a group that has a stopped process
/// and loses its last tie to its session). The server gets them back.
const SCRIPT: &str = r#"
folder=$1; shift
pid=
trap '' HUP INT TERM PIPE
alive() { [[ -n $pid ]] && kill -0 "$pid" 2>/dev/null; }
while read -r order argument; do
  case $order in
    start)
      (trap - HUP INT TERM PIPE; exec "$@" </dev/null >>"$folder/output.log" 2>&1) & pid=$!
      echo "$pid" ;;
    signal) if alive && kill -s "$argument" "$pid"; then echo sent; else echo gone; fi ;;
    alive) if alive; then echo yes; else echo no; fi ;;
  esac
done
alive && kill -KILL "$pid"
wait
# A program that was filling the folder for the test may go on for a moment.
for _ in {1..100}; do rm -rf "$folder" && break; sleep 0.1; done
"#;

/// The pipe to one shell. Dropping it ends the server and removes its folder.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Supervisor {
    /// A shell for the server with this command line; the server is not started yet.
    pub(crate) fn new(folder: &Path, command_line: &[OsString]) -> anyhow::Result<Self> {
        let mut shell = Command::new("bash")
            .args(["-c", SCRIPT, "supervisor"])
            .arg(folder)
            .args(command_line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal reaches the whole group of the test: the
            // shell must outlive it, to clean up.
            .process_group(0)
            .spawn()
            .context("bash does not start")?;
        let orders = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().context("stdout is piped")?);
        Ok(Self {
            shell,
            orders,
            answers,
        })
    }

    /// Starts the server; the answer is its process id.
    pub(crate) fn start(&mut self) -> anyhow::Result<u32> {
        Ok(self.ask("start")?.parse()?)
    }

    /// Sends a signal, named as `kill -s` names it. False when the server is gone.
    pub(crate) fn signal(&mut self, name: &str) -> anyhow::Result<bool> {
        Ok(self.ask(&format!("signal {name}"))? == "sent")
    }

    /// Whether the server's process exists. A paused one does.
    pub(crate) fn is_alive(&mut self) -> anyhow::Result<bool> {
        Ok(self.ask("alive")? == "yes")
    }

    /// Lets the shell end the server, without waiting for that.
    pub(crate) fn close(&mut self) {
        self.orders = None;
    }

    // The shell answers at once, so this may block.
    fn ask(&mut self, order: &str) -> anyhow::Result<String> {
        let orders = self.orders.as_mut().context("the supervisor was closed")?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(!answer.is_empty(), "the supervisor died at {order:?}");
        Ok(answer.trim_end().to_owned())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.close();
        // Nothing can be done about a failure here, and the shell needs no help.
        let _ = self.shell.wait();
    }
}
