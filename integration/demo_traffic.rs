//! `causeway verify` as a child of the demo.

use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

/// How often to look whether it has ended.
const LOOK_EACH: Duration = Duration::from_millis(50);

/// A run of `causeway verify`, which prints its own progress and report.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) password: &'static str,
    pub(crate) limit: Duration,
}

/// Ends the child when it is dropped.
#[derive(Debug)]
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Both fail when it has ended by itself, which is as it should be.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs it to its end. The first Ctrl-C reaches it too: it then ends early and
/// reports. The second ends it at once.
pub(crate) async fn run(traffic: &Traffic) -> anyhow::Result<ExitCode> {
    let child = Command::new(&traffic.program)
        .args(&traffic.arguments)
        .env("CAUSEWAY_VERIFY_PASSWORD", traffic.password)
        .spawn();
    let mut child = Guard(child.context("`causeway verify` does not start")?);
    let code = tokio::select! {
        code = end_of(&mut child) => code?,
        () = tokio::time::sleep(traffic.limit) => bail!("`causeway verify` does not end"),
        () = second_interrupt() => bail!("stopped by a second Ctrl-C"),
    };
    ensure!(
        code != 2,
        "`causeway verify` could not check everything; see above"
    );
    Ok(ExitCode::from(code))
}

async fn end_of(child: &mut Guard) -> anyhow::Result<u8> {
    loop {
        if let Some(status) = child.0.try_wait()? {
            let code = status.code().context("`causeway verify` was killed")?;
            return Ok(u8::try_from(code)?);
        }
        tokio::time::sleep(LOOK_EACH).await;
    }
}

async fn second_interrupt() {
    for _ in 0..2 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
