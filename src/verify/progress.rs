//! Progress on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::recorder::{Glance, Recorder};
use crate::clock::{self, Moment};

/// How often the bar is drawn.
const BAR_EACH: Duration = Duration::from_millis(200);
/// How often a line is written.
const LINE_EACH: Duration = Duration::from_secs(5);

/// Shows one round until it is over.
pub(super) async fn show(name: &str, recorder: &Recorder, start: Moment, total: Duration) {
    let round = Round {
        name,
        recorder,
        before: recorder.glance(),
        start,
        total,
    };
    if std::io::stderr().is_terminal() {
        round.draw_bar().await;
    } else {
        round.write_lines().await;
    }
}

/// A round that is shown. Earlier rounds of the policy are not counted again.
struct Round<'a> {
    name: &'a str,
    recorder: &'a Recorder,
    before: Glance,
    start: Moment,
    total: Duration,
}

impl Round<'_> {
    async fn draw_bar(&self) {
        let length = u64::try_from(self.total.as_millis()).unwrap_or(u64::MAX);
        let bar = ProgressBar::new(length).with_prefix(self.name.to_owned());
        let style = ProgressStyle::with_template("{prefix:>16} [{bar:30}] {msg}");
        bar.set_style(style.expect("the template is a constant that parses"));
        loop {
            let elapsed = self.elapsed();
            bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
            bar.set_message(self.line(elapsed));
            if elapsed >= self.total {
                break;
            }
            tokio::time::sleep(BAR_EACH.min(self.total - elapsed)).await;
        }
        // The line stays, below it the next policy's bar.
        bar.abandon();
    }

    async fn write_lines(&self) {
        while self.elapsed() < self.total {
            tokio::time::sleep(LINE_EACH.min(self.total - self.elapsed())).await;
            eprintln!("{}: {}", self.name, self.line(self.elapsed()));
        }
    }

    fn elapsed(&self) -> Duration {
        clock::now().since(self.start).min(self.total)
    }

    fn line(&self, elapsed: Duration) -> String {
        let (elapsed, total) = (elapsed.as_secs_f64(), self.total.as_secs_f64());
        let now = self.recorder.glance();
        let reads = now.reads - self.before.reads;
        let stale = now.stale - self.before.stale;
        let errors = now.errors - self.before.errors;
        format!("{elapsed:.0} of {total:.0} s, {reads} reads, {stale} stale, {errors} errors")
    }
}
