//! `causeway check`: what stands between this configuration and the promises.

use std::path::PathBuf;
use std::process::ExitCode;

use super::Format;
use crate::check::{Level, Report, check};
use crate::config::Config;

const EXAMPLE: &str = "Example:
  causeway check --config causeway.toml

Exit code: 0 nothing to mend; 1 something is named that must be mended; 2 the
configuration itself cannot be used.";

/// Options of `causeway check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct CheckArgs {
    /// The configuration file
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Form of the report
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

pub(crate) async fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    let report = check(&config).await;
    match args.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Format::Table => print(&report),
    }
    Ok(ExitCode::from(u8::from(!report.passed)))
}

fn print(report: &Report) {
    for finding in &report.findings {
        let mark = match finding.level {
            Level::Good => "ok  ",
            Level::Warning => "WARN",
            Level::Error => "FAIL",
        };
        println!("{mark}  {}: {}", finding.subject, finding.text);
        if let Some(mend) = &finding.mend {
            println!("      mend: {mend}");
        }
    }
    println!(
        "\n{}",
        if report.passed {
            "Nothing has to be mended."
        } else {
            "Mend what is marked FAIL."
        }
    );
}
