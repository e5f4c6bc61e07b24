//! Fleets for tests: made through real events, with made-up time.
//!
//! Servers are named `A`, `B`, … in GTID texts too; times are milliseconds.

use std::sync::Arc;

use super::{
    Channel, Event, Fault, Fleet, FleetView, Identity, Sample, ServerIx, ServerSpec, ServerView,
    Status, Version,
};
use crate::gtid::{GtidSet, Sid, Uuid};
use crate::moment::Moment;

pub(crate) const fn at(ms: u64) -> Moment {
    Moment::from_micros(ms * 1000)
}

pub(crate) fn ix(server: usize) -> ServerIx {
    ServerIx(u16::try_from(server).expect("few servers"))
}

pub(crate) fn uuid(server: usize) -> Uuid {
    Uuid::from_bytes([0x11 * (u8::try_from(server).expect("few servers") + 1); 16])
}

pub(crate) fn sid(server: usize) -> Sid {
    Sid::from(uuid(server))
}

/// A set from a text in which `A`, `B`, … stand for the servers' UUIDs.
pub(crate) fn set(text: &str) -> GtidSet {
    let mut spelled = text.to_owned();
    for (server, name) in ('A'..='F').enumerate() {
        spelled = spelled.replace(name, &uuid(server).to_string());
    }
    spelled.parse().expect("a valid set")
}

pub(crate) fn identity(server: usize) -> Identity {
    Identity {
        uuid: uuid(server),
        version: Version::new(8, 4, 0),
    }
}

/// The status of a server that replicates from nobody.
pub(crate) fn alone(read_only: bool) -> Status {
    Status {
        read_only,
        preserve_commit_order: Some(true),
        threads_running: None,
        channels: Vec::new(),
        binary_log: None,
    }
}

/// The status of a read-only server with a running channel from `source`.
pub(crate) fn replica_of(source: usize) -> Status {
    Status {
        channels: vec![channel(source, true)],
        ..alone(true)
    }
}

pub(crate) fn channel(source: usize, running: bool) -> Channel {
    Channel {
        name: String::new(),
        source_address: format!("h{source}:3306"),
        source_uuid: Some(uuid(source)),
        receiver_running: running,
        receiver_connecting: false,
        applier_running: running,
        received: None,
        error: None,
        delay_s: None,
    }
}

pub(crate) fn fault() -> Fault {
    Fault::Unreachable("connection reset".into())
}

/// What `server` reported, with times in milliseconds.
pub(crate) fn sample(server: usize, executed: &str, asked: u64, answered: u64) -> Sample {
    Sample {
        server: uuid(server),
        set: Arc::new(set(executed)),
        owned: None,
        asked: at(asked),
        answered: at(answered),
        read_only: None,
    }
}

/// A fleet and the means to make things happen to it.
pub(crate) struct Lab {
    pub(crate) fleet: Fleet,
}

impl Lab {
    /// Nothing is known yet.
    pub(crate) fn unknown(servers: usize) -> Self {
        let specs: Vec<ServerSpec> = (0..servers).map(|server| spec(server, None)).collect();
        Self::of(&specs)
    }

    pub(crate) fn of(specs: &[ServerSpec]) -> Self {
        Self {
            fleet: Fleet::new(specs),
        }
    }

    /// `A` is the source, the others replicate from it; everyone executed `set`.
    pub(crate) fn running(servers: usize, set: &str) -> Self {
        Self::unknown(servers).start(servers, set)
    }

    pub(crate) fn start(mut self, servers: usize, set: &str) -> Self {
        for server in 0..servers {
            self.identify(server, server, 0);
            let status = if server == 0 {
                alone(false)
            } else {
                replica_of(0)
            };
            self.polled(server, status, 0);
        }
        for server in (0..servers).rev() {
            self.executed(server, set, 0);
        }
        self
    }

    pub(crate) fn apply(&mut self, server: usize, event: Event, ms: u64) -> bool {
        self.fleet.apply(ix(server), event, at(ms))
    }

    /// The server at place `server` says that it is `who`.
    pub(crate) fn identify(&mut self, server: usize, who: usize, ms: u64) -> bool {
        self.apply(server, Event::Identified(identity(who)), ms)
    }

    pub(crate) fn polled(&mut self, server: usize, status: Status, ms: u64) -> bool {
        self.poll_asked(server, status, ms, ms)
    }

    pub(crate) fn poll_asked(
        &mut self,
        server: usize,
        status: Status,
        asked: u64,
        ms: u64,
    ) -> bool {
        let event = Event::Polled {
            server: uuid(server),
            status,
            asked: at(asked),
        };
        self.apply(server, event, ms)
    }

    /// Asked and answered within the same moment.
    pub(crate) fn executed(&mut self, server: usize, set: &str, ms: u64) -> bool {
        self.sampled(server, sample(server, set, ms, ms))
    }

    pub(crate) fn sampled(&mut self, server: usize, sample: Sample) -> bool {
        let answered = sample.answered;
        self.fleet
            .apply(ix(server), Event::Executed(sample), answered)
    }

    /// The source tells what it owned and had executed.
    pub(crate) fn probed(&mut self, server: usize, owned: &str, executed: &str, ms: u64) -> bool {
        let sample = Sample {
            owned: Some(Arc::new(set(owned))),
            ..sample(server, executed, ms, ms)
        };
        self.sampled(server, sample)
    }

    pub(crate) fn lose(&mut self, server: usize, ms: u64) -> bool {
        self.apply(server, Event::Lost(fault()), ms)
    }

    pub(crate) fn view(&self) -> FleetView {
        self.fleet.view()
    }

    pub(crate) fn server(&self, server: usize) -> ServerView {
        self.view().server(ix(server)).clone()
    }

    /// The executed set that counts as evidence.
    pub(crate) fn evidence(&self, server: usize) -> Option<GtidSet> {
        self.server(server)
            .executed()
            .map(|set| GtidSet::clone(set))
    }
}

pub(crate) fn spec(server: usize, zone: Option<&str>) -> ServerSpec {
    ServerSpec {
        name: format!("db{server}"),
        address: format!("h{server}:3306"),
        zone: zone.map(str::to_owned),
    }
}
