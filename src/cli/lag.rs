//! `causeway lag`: every server and how far it is behind.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

use super::Format;
use super::client::{Client, Target};
use crate::api::wire::{ServerState, ServersResponse};

const EXAMPLE: &str = "Examples:
  causeway lag
  causeway lag --watch --every 500ms
  causeway lag --format json | jq '.servers[] | select(.state != \"usable\")'

Exit code: 1 when a server is not usable or there is no source.";

/// Options of `causeway lag`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct LagArgs {
    #[command(flatten)]
    target: Target,
    /// Redraw until interrupted
    #[arg(long)]
    watch: bool,
    /// Time between two looks with --watch
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration, value_name = "TIME")]
    every: Duration,
    /// Form of the output (with --watch, json prints one line a look)
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

pub(crate) async fn run(args: &LagArgs) -> anyhow::Result<ExitCode> {
    let client = args.target.client()?;
    if !args.watch {
        let servers = look(&client).await?;
        print(&servers, args)?;
        return Ok(ExitCode::from(u8::from(!all_well(&servers))));
    }
    loop {
        let looked = look(&client).await;
        let mut out = std::io::stdout().lock();
        if out.is_terminal() {
            // Home, and clear what the last drawing left below.
            write!(out, "\x1b[H\x1b[2J")?;
        }
        drop(out);
        match &looked {
            Ok(servers) => print(servers, args)?,
            Err(error) => println!("{error:#}"),
        }
        tokio::select! {
            () = tokio::time::sleep(args.every) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

async fn look(client: &Client) -> anyhow::Result<ServersResponse> {
    Ok(serde_json::from_value(client.get("/v1/servers").await?)?)
}

fn all_well(servers: &ServersResponse) -> bool {
    servers.source.is_some()
        && servers
            .servers
            .iter()
            .all(|server| server.state == "usable")
}

fn print(servers: &ServersResponse, args: &LagArgs) -> anyhow::Result<()> {
    match (args.format, args.watch) {
        (Format::Table, _) => println!("{}", table(servers)),
        (Format::Json, false) => println!("{}", serde_json::to_string_pretty(servers)?),
        (Format::Json, true) => println!("{}", serde_json::to_string(servers)?),
    }
    Ok(())
}

fn table(servers: &ServersResponse) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "SERVER",
        "ADDRESS",
        "ROLE",
        "STATE",
        "STALENESS",
        "BEHIND",
        "TRX BEHIND",
        "QUEUED",
        "EPOCH",
    ]);
    for server in &servers.servers {
        table.add_row(row(server));
    }
    for column in 4..9 {
        table
            .column_mut(column)
            .expect("the table has nine columns")
            .set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.to_string();
    if let Some(error) = &servers.source_error {
        text.push_str(&format!("\n\n{error}"));
    }
    for server in &servers.servers {
        for note in server.error.iter().chain(&server.warnings) {
            text.push_str(&format!("\n{}: {note}", server.name));
        }
    }
    text
}

fn row(server: &ServerState) -> [String; 9] {
    let unknown = || "?".to_owned();
    let count = |number: Option<u64>| number.map_or_else(unknown, |number| number.to_string());
    let behind = match server.behind_us {
        Some(us) => milliseconds(us),
        None if server.staleness_us.is_some() => "0".to_owned(),
        None => unknown(),
    };
    [
        server.name.clone(),
        server.address.clone(),
        server.role.clone(),
        server.state.clone(),
        server.staleness_us.map_or_else(unknown, milliseconds),
        behind,
        count(server.transactions_behind),
        count(server.received_not_executed),
        server.epoch.to_string(),
    ]
}

fn milliseconds(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1000.0)
}
