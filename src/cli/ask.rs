//! `causeway route` and `causeway wrote`: the API from a shell.

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::Format;
use super::client::Target;

const ROUTE_EXAMPLE: &str = "Examples:
  causeway route --session u42
  causeway route --token 3e11fa47-71ca-11e1-9e33-c80aa9429562:23 --consistency read_your_writes --explain
  mysql -h \"$(causeway route --session u42 --format json | jq -r .address | cut -d: -f1)\"";

const WROTE_EXAMPLE: &str = "Examples:
  causeway wrote --session u42 --gtid 3e11fa47-71ca-11e1-9e33-c80aa9429562:23
  causeway wrote                 # a token for everything committed so far";

/// Options of `causeway route`.
#[derive(Debug, clap::Args)]
#[command(after_help = ROUTE_EXAMPLE)]
pub(crate) struct RouteArgs {
    #[command(flatten)]
    target: Target,
    /// The application's key for a user, request chain or device
    #[arg(long)]
    session: Option<String>,
    /// What the server must have executed, as a GTID set
    #[arg(long)]
    token: Option<String>,
    /// eventual, bounded, monotonic, read_your_writes, session or strong
    #[arg(long)]
    consistency: Option<String>,
    /// A bound on staleness
    #[arg(long, value_name = "MS")]
    max_staleness_ms: Option<f64>,
    /// How long to wait for a replica
    #[arg(long, value_name = "MS")]
    max_wait_ms: Option<f64>,
    /// source, stale or error
    #[arg(long)]
    on_timeout: Option<String>,
    /// The caller's zone
    #[arg(long)]
    zone: Option<String>,
    /// Tell how every server stood
    #[arg(long)]
    explain: bool,
    /// Form of the answer
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// Options of `causeway wrote`.
#[derive(Debug, clap::Args)]
#[command(after_help = WROTE_EXAMPLE)]
pub(crate) struct WroteArgs {
    #[command(flatten)]
    target: Target,
    /// The application's key for a user, request chain or device
    #[arg(long)]
    session: Option<String>,
    /// The commit's GTID; without it, everything committed so far counts
    #[arg(long)]
    gtid: Option<String>,
    /// Form of the answer
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

pub(crate) async fn route(args: &RouteArgs) -> anyhow::Result<ExitCode> {
    let body = fields([
        ("session", args.session.clone().map(Value::from)),
        ("token", args.token.clone().map(Value::from)),
        ("consistency", args.consistency.clone().map(Value::from)),
        ("max_staleness_ms", args.max_staleness_ms.map(Value::from)),
        ("max_wait_ms", args.max_wait_ms.map(Value::from)),
        ("on_timeout", args.on_timeout.clone().map(Value::from)),
        ("zone", args.zone.clone().map(Value::from)),
        ("explain", args.explain.then_some(Value::from(true))),
    ]);
    let answer = args.target.client()?.post("/v1/route", &body).await?;
    show(&answer, args.format)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn wrote(args: &WroteArgs) -> anyhow::Result<ExitCode> {
    let body = fields([
        ("session", args.session.clone().map(Value::from)),
        ("gtid", args.gtid.clone().map(Value::from)),
    ]);
    let answer = args.target.client()?.post("/v1/writes", &body).await?;
    show(&answer, args.format)?;
    Ok(ExitCode::SUCCESS)
}

fn fields<const N: usize>(given: [(&str, Option<Value>); N]) -> Value {
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}

fn show(answer: &Value, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        println!("{}", serde_json::to_string_pretty(answer)?);
        return Ok(());
    }
    for (name, value) in answer.as_object().unwrap_or(&Map::new()) {
        match value {
            Value::Array(rows) => rows.iter().for_each(|row| println!("{name:>14}  {row}")),
            Value::String(text) => println!("{name:>14}  {text}"),
            Value::Null => println!("{name:>14}  unknown"),
            other => println!("{name:>14}  {}", json!(other)),
        }
    }
    Ok(())
}
