//! Fleets without servers: fed with the events that real ones cause.

use std::sync::Arc;

use causeway::config::Config;
use causeway::fleet::{
    Channel, Event, Fleet, Identity, Sample, ServerIx, ServerSpec, Status, Version,
};
use causeway::gtid::{GtidSet, Sid, Uuid};
use causeway::moment::Moment;

/// The UUID of the server at `index`; 0 is the source.
pub(crate) fn uuid(index: u16) -> Uuid {
    Uuid::from_bytes((0x3e11_fa47_71ca_11e1_9e33_c80a_a942_0000 + u128::from(index)).to_be_bytes())
}

/// The UUID under which the source commits.
pub(crate) fn sid() -> Sid {
    Sid::from(uuid(0))
}

/// All of 1..=`gno` of the source, and a little of two sources before it.
pub(crate) fn executed(gno: u64) -> Arc<GtidSet> {
    let mut set = GtidSet::default();
    for before in 1..3 {
        set.insert_range(Sid::from(uuid(before)), 1, 100);
    }
    set.insert_range(sid(), 1, gno);
    Arc::new(set)
}

/// One source and its replicas.
pub(crate) fn specs(replicas: u16) -> Vec<ServerSpec> {
    let spec = |index: u16| ServerSpec {
        name: format!("db{}", index + 1),
        address: format!("10.0.{}.{}:3306", index / 256, index % 256),
        zone: None,
    };
    (0..=replicas).map(spec).collect()
}

/// A configuration for those servers, with the defaults for all else.
pub(crate) fn config(replicas: u16) -> Config {
    let entry = |spec: ServerSpec| format!("{{name={:?},address={:?}}}", spec.name, spec.address);
    let servers: Vec<String> = specs(replicas).into_iter().map(entry).collect();
    let text = format!(
        "[mysql]\nuser=\"causeway\"\npassword=\"\"\nservers=[{}]\n[api]\nlisten=\"127.0.0.1:0\"",
        servers.join(",")
    );
    Config::parse(&text, &|_| None).expect("the benchmark's configuration is right")
}

/// What makes those servers known: who they are, what they have executed, who
/// replicates from whom.
pub(crate) fn begin(replicas: u16, executed: &Arc<GtidSet>, now: Moment) -> Vec<(ServerIx, Event)> {
    let all = 0..=replicas;
    let identified = all.clone().map(|index| {
        let (uuid, version) = (uuid(index), Version::new(9, 7, 4));
        (
            ServerIx(index),
            Event::Identified(Identity { uuid, version }),
        )
    });
    let polled = all.rev().map(|index| (ServerIx(index), polled(index, now)));
    identified
        .chain(grow(replicas, executed, now))
        .chain(polled)
        .chain(grow(replicas, executed, now))
        .collect()
}

/// Every server has executed this.
pub(crate) fn grow(replicas: u16, executed: &Arc<GtidSet>, now: Moment) -> Vec<(ServerIx, Event)> {
    let sample = |index| Sample {
        server: uuid(index),
        set: Arc::clone(executed),
        owned: Some(Arc::default()),
        asked: now,
        answered: now,
        read_only: None,
    };
    let event = |index| (ServerIx(index), Event::Executed(sample(index)));
    (0..=replicas).map(event).collect()
}

fn polled(index: u16, asked: Moment) -> Event {
    Event::Polled {
        server: uuid(index),
        status: status(index),
        asked,
    }
}

/// A fleet that saw `before` first and has `after` now.
pub(crate) fn fleet(
    replicas: u16,
    before: &Arc<GtidSet>,
    after: &Arc<GtidSet>,
    now: Moment,
) -> Fleet {
    let mut fleet = Fleet::new(&specs(replicas));
    let events = begin(replicas, before, now).into_iter();
    for (server, event) in events.chain(grow(replicas, after, now)) {
        fleet.apply(server, event, now);
    }
    assert!(fleet.view().source().is_some(), "the source is known");
    fleet
}

fn status(index: u16) -> Status {
    let channel = Channel {
        name: String::new(),
        source_address: "10.0.0.0:3306".into(),
        source_uuid: Some(uuid(0)),
        receiver_running: true,
        receiver_connecting: false,
        applier_running: true,
        received: None,
        error: None,
        delay_s: None,
    };
    Status {
        read_only: index > 0,
        preserve_commit_order: Some(true),
        threads_running: Some(2),
        channels: if index > 0 { vec![channel] } else { Vec::new() },
        binary_log: None,
    }
}
