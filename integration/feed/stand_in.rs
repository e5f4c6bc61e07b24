//! What stands in for ProxySQL: it connects, reads, and never writes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use causeway::gtid::GtidSet;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::TcpStream;

use crate::support::{SOON, set};

/// One connection to a feed, and what it was told.
pub(super) struct StandIn {
    lines: Lines<BufReader<TcpStream>>,
    pub(super) told: GtidSet,
    named: String,
}

impl StandIn {
    pub(super) async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = tokio::time::timeout(SOON, TcpStream::connect(address)).await??;
        Ok(Self {
            lines: BufReader::new(stream).lines(),
            told: GtidSet::default(),
            named: String::new(),
        })
    }

    /// The next line that says something; `None` when the connection ended.
    pub(super) async fn line(&mut self) -> anyhow::Result<Option<String>> {
        let line = tokio::time::timeout(SOON, self.next()).await;
        let line = line.context("neither a line nor an end")?;
        line.iter().for_each(|line| self.takes(line));
        Ok(line)
    }

    async fn next(&mut self) -> Option<String> {
        loop {
            // A reset connection has ended too.
            let line = self.lines.next_line().await.ok()??;
            if !line.starts_with('#') {
                return Some(line);
            }
        }
    }

    /// The GTID of the next increment.
    pub(super) async fn told_next(&mut self) -> anyhow::Result<String> {
        let line = self.line().await?.context("the connection ended")?;
        let number = line.rsplit([':', '=']).next().unwrap_or_default();
        Ok(format!("{}:{number}", self.named))
    }

    /// Reads until this GTID was told; gives the line that told it.
    pub(super) async fn until_told(&mut self, gtid: &str) -> anyhow::Result<String> {
        let wanted = set(gtid);
        loop {
            let line = self.line().await?;
            let line = line.with_context(|| format!("the connection ended without {gtid}"))?;
            if self.told.contains_set(&wanted) {
                return Ok(line);
            }
        }
    }

    /// Whether anything is said within this time.
    pub(super) async fn is_silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.line()).await.is_err()
    }

    fn takes(&mut self, line: &str) {
        if let Some(all) = line.strip_prefix("ST=") {
            self.told = set(all);
            return;
        }
        assert!(line.len() < 80, "it would crash ProxySQL: {line}");
        let number = match (line.strip_prefix("I1="), line.strip_prefix("I2=")) {
            (Some(gtid), _) => {
                let (bare, number) = gtid.split_once(':').expect("a UUID and a number");
                let uuid: causeway::gtid::Uuid = bare.parse().expect("a UUID");
                self.named = uuid.to_string();
                number
            }
            (_, Some(number)) => number,
            _ => panic!("not a line of the protocol: {line}"),
        };
        self.told
            .union_with(&set(&format!("{}:{number}", self.named)));
    }
}
