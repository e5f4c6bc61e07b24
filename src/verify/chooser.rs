//! Where a session's next read goes, by each policy.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::args::VerifyServer;
use super::causeway::CausewaySession;
use super::checker::Promise;
use super::policy::{Policy, sticks};
use super::reader::Reader;
use super::recorder::{Recorder, Routing};
use super::topology::Topology;

/// A server for one read, and what was promised about it.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) server: VerifyServer,
    /// What comes before the query, so that ProxySQL sends it there.
    pub(super) comment: Option<String>,
    pub(super) routing: Routing,
    pub(super) promise: Promise,
    pub(super) degraded: bool,
}

impl Choice {
    /// A choice of a policy that promises nothing.
    fn unpromised(
        server: &VerifyServer,
        reason: &str,
        off_source: impl Into<Option<bool>>,
    ) -> Self {
        let (reason, off_source) = (reason.to_owned(), off_source.into());
        Self {
            server: server.clone(),
            comment: None,
            routing: Routing { reason, off_source },
            promise: Promise::NONE,
            degraded: false,
        }
    }

    fn source(topology: &Topology, reason: &str) -> Self {
        Self::unpromised(&topology.source, reason, false)
    }
}

/// A session's state under one policy.
#[derive(Debug)]
pub(super) enum Chooser {
    Source,
    Random,
    Sticky {
        time: Duration,
        written_us: Option<u64>,
    },
    Barrier {
        wait: Duration,
        gtid: Option<String>,
    },
    Causeway(Box<CausewaySession>),
    /// ProxySQL decides, or is told of a hostgroup.
    Proxied(Choice),
}

/// What a choice may need beside its own state.
pub(super) struct Surroundings<'a> {
    pub(super) topology: &'a Topology,
    pub(super) reader: &'a mut Reader,
    pub(super) rng: &'a mut StdRng,
    pub(super) recorder: &'a Arc<Recorder>,
    pub(super) now_us: u64,
}

impl Chooser {
    /// `through` is ProxySQL, which the policies that need it are given.
    pub(super) fn new(
        policy: Policy,
        causeway: CausewaySession,
        through: Option<&VerifyServer>,
    ) -> Self {
        match policy.with_wait(None) {
            Policy::Source => Self::Source,
            Policy::Random => Self::Random,
            Policy::Sticky(time) => Self::Sticky {
                time,
                written_us: None,
            },
            Policy::Barrier(wait) => Self::Barrier {
                wait: wait.unwrap_or_default(),
                gtid: None,
            },
            Policy::Causeway => Self::Causeway(Box::new(causeway)),
            Policy::Rules => Self::Proxied(proxied(through, None)),
            Policy::Hostgroup(number) => Self::Proxied(proxied(through, Some(number))),
        }
    }

    /// The session's write was acknowledged.
    pub(super) async fn wrote(&mut self, new: Option<String>, now_us: u64) -> Result<(), String> {
        match self {
            Self::Source | Self::Random | Self::Proxied(_) => Ok(()),
            Self::Sticky { written_us, .. } => {
                *written_us = Some(now_us);
                Ok(())
            }
            Self::Barrier { gtid, .. } => match new {
                Some(new) => {
                    *gtid = Some(new);
                    Ok(())
                }
                None => Err("barrier: the server sent no GTID with the write".into()),
            },
            Self::Causeway(session) => session.wrote(new.as_deref()).await,
        }
    }

    /// Chooses a server for the next read.
    pub(super) async fn choose(&mut self, around: Surroundings<'_>) -> Result<Choice, String> {
        let topology = around.topology;
        match self {
            Self::Source => Ok(Choice::source(topology, "source")),
            Self::Random => Ok(random(topology, around.rng)),
            Self::Sticky { time, written_us } if sticks(*time, *written_us, around.now_us) => {
                Ok(Choice::source(topology, "sticky"))
            }
            Self::Sticky { .. } => Ok(random(topology, around.rng)),
            Self::Barrier { wait, gtid } => Ok(barrier(*wait, gtid.as_deref(), around).await),
            Self::Proxied(choice) => Ok(choice.clone()),
            Self::Causeway(session) => {
                let choice = session.route().await?;
                if !session.is_promised() {
                    around.recorder.unpromised();
                }
                Ok(choice)
            }
        }
    }
}

/// Any replica; the source when there is none.
fn random(topology: &Topology, rng: &mut StdRng) -> Choice {
    if topology.replicas.is_empty() {
        return Choice::source(topology, "no_replica");
    }
    let replica = &topology.replicas[rng.random_range(0..topology.replicas.len())];
    Choice::unpromised(replica, "replica", true)
}

/// Who answers is not known to whoever chooses.
fn proxied(through: Option<&VerifyServer>, hostgroup: Option<u32>) -> Choice {
    let through = through.expect("a policy through ProxySQL is refused without one");
    let reason = if hostgroup.is_some() {
        "hostgroup"
    } else {
        "rules"
    };
    Choice {
        comment: hostgroup.map(|number| format!("/* hostgroup={number} */")),
        ..Choice::unpromised(through, reason, None)
    }
}

/// Waits on a random replica for the session's last write.
async fn barrier(wait: Duration, gtid: Option<&str>, around: Surroundings<'_>) -> Choice {
    let choice = random(around.topology, around.rng);
    let Some(gtid) = gtid.filter(|_| choice.routing.off_source == Some(true)) else {
        return choice;
    };
    match around.reader.barrier(&choice.server, gtid, wait).await {
        Ok(true) => Choice::unpromised(&choice.server, "barrier_passed", true),
        Ok(false) => Choice::source(around.topology, "barrier_timeout"),
        Err(error) => {
            around.recorder.error(&error);
            Choice::source(around.topology, "barrier_error")
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_random_replica_is_never_the_source_while_there_is_a_replica() {
        let server = |name: &str| VerifyServer::new(name, "127.0.0.1:1").unwrap();
        let mut topology = Topology {
            source: server("a"),
            replicas: vec![server("b"), server("c")],
        };
        let mut rng = StdRng::seed_from_u64(7);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            seen.insert(random(&topology, &mut rng).server.name);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["b", "c"]);
        topology.replicas.clear();
        assert_eq!(random(&topology, &mut rng).routing.off_source, Some(false));
    }
}
