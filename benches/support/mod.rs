//! What the benchmarks share: how they were called, time, fleets, verdicts.
//!
//! A benchmark prints one line per figure, beside the limit it must keep. A
//! missed limit is named and does not fail the process: machines are noisy,
//! and a figure is for people to judge.

#![allow(dead_code, reason = "each benchmark uses its own part")]

pub(crate) mod fleet;
pub(crate) mod http;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod time;

use std::fmt::Display;

/// How the benchmark was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `cargo bench`: measure.
    Measure,
    /// `cargo test --benches`: run through everything that is cheap, once.
    Test,
}

impl Mode {
    /// As criterion reads the command line; `None` when a filter leaves the
    /// benchmark called `name` out.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
        if given("--list") {
            return None;
        }
        let mut filters = arguments
            .iter()
            .filter(|argument| !argument.starts_with('-'));
        if !filters.clone().all(|_| false) && !filters.any(|filter| name.contains(filter.as_str()))
        {
            return None;
        }
        if given("--bench") && !given("--test") {
            Some(Self::Measure)
        } else {
            Some(Self::Test)
        }
    }

    /// `many` when measuring, else `few`.
    pub(crate) fn pick<T>(self, many: T, few: T) -> T {
        match self {
            Self::Measure => many,
            Self::Test => few,
        }
    }
}

/// Prints one figure without a limit.
pub(crate) fn say(name: &str, figures: impl Display) {
    println!("{name:<44} {figures}");
}

/// Prints one figure with the limit it must keep.
pub(crate) fn judge(name: &str, kept: bool, figures: impl Display, limit: impl Display) {
    let verdict = if kept { "ok" } else { "MISSED" };
    println!("{name:<44} {figures}  (limit {limit}) {verdict}");
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
