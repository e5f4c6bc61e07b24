//! Who is the source: tables of topologies.

use crate::fleet::roles::{Facts, Role, SourceError, source_of};
use crate::fleet::testing::{Lab, alone, at, channel, replica_of, sample, uuid};
use crate::fleet::{Event, ServerIx, Status};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// `None` stands for a server that cannot be reached.
fn found(statuses: &[Option<Status>], was: Option<usize>) -> Result<usize, SourceError> {
    let facts: Vec<Facts<'_>> = statuses
        .iter()
        .enumerate()
        .map(|(i, status)| Facts {
            name: NAMES[i],
            uuid: Some(uuid(i)),
            status: status.as_ref(),
            was_source: was == Some(i),
        })
        .collect();
    source_of(&facts)
}

fn writable(mut status: Status) -> Option<Status> {
    status.read_only = false;
    Some(status)
}

fn stopped(source: usize, read_only: bool) -> Option<Status> {
    Some(Status {
        channels: vec![channel(source, false)],
        ..alone(read_only)
    })
}

fn kind(found: &Result<usize, SourceError>) -> &'static str {
    match found {
        Ok(_) => "found",
        Err(SourceError::NoneWritable) => "none",
        Err(SourceError::Ambiguous(_)) => "ambiguous",
        Err(SourceError::Unconfirmed { .. }) => "unconfirmed",
    }
}

#[test]
fn a_source_is_found_where_it_is_certain() {
    let source = || Some(alone(false));
    let replica = |of| Some(replica_of(of));
    let cases: [(&str, Vec<Option<Status>>, usize); 9] = [
        ("alone", vec![source()], 0),
        (
            "one with two replicas",
            vec![source(), replica(0), replica(0)],
            0,
        ),
        ("a chain", vec![replica(1), replica(2), source()], 2),
        (
            "circular, one writable",
            vec![writable(replica_of(1)), replica(0)],
            0,
        ),
        (
            "promoted, with a left-over channel to the dead",
            vec![None, stopped(0, false), replica(1)],
            1,
        ),
        (
            "promoted, the old source follows it",
            vec![replica(1), stopped(0, false)],
            1,
        ),
        (
            "a replica writable by mistake",
            vec![source(), writable(replica_of(0))],
            0,
        ),
        (
            "a stopped replica writable by mistake",
            vec![source(), stopped(0, false)],
            0,
        ),
        (
            "a replica out of reach",
            vec![source(), replica(0), None],
            0,
        ),
    ];
    for (name, statuses, expected) in cases {
        assert_eq!(found(&statuses, None), Ok(expected), "{name}");
    }
}

#[test]
fn short_of_certainty_there_is_an_error_with_a_name() {
    let source = || Some(alone(false));
    let replica = |of| Some(replica_of(of));
    let cases: [(&str, Vec<Option<Status>>, &str); 8] = [
        ("nobody", vec![None, None], "none"),
        ("all read-only", vec![Some(alone(true)), replica(0)], "none"),
        (
            "two writable",
            vec![source(), source(), replica(0)],
            "ambiguous",
        ),
        (
            "two writable that replicate from each other",
            vec![writable(replica_of(1)), writable(replica_of(0))],
            "none",
        ),
        (
            "cold start, others out of reach",
            vec![source(), None],
            "unconfirmed",
        ),
        (
            "the replica follows a stranger",
            vec![source(), replica(3)],
            "unconfirmed",
        ),
        (
            "a read-only old source back, not following yet",
            vec![Some(alone(true)), stopped(0, false)],
            "none",
        ),
        (
            "a writable replica whose source is out of reach",
            vec![None, writable(replica_of(0))],
            "none",
        ),
    ];
    for (name, statuses, expected) in cases {
        assert_eq!(kind(&found(&statuses, None)), expected, "{name}");
    }
}

#[test]
fn a_source_confirmed_before_stays_while_it_is_writable_and_nobody_follows_another() {
    let source = || Some(alone(false));
    assert_eq!(found(&[source(), None], Some(0)), Ok(0));
    assert_eq!(kind(&found(&[source(), None], Some(1))), "unconfirmed");
    assert_eq!(
        kind(&found(&[source(), Some(replica_of(3)), None], Some(0))),
        "unconfirmed"
    );
    assert_eq!(kind(&found(&[Some(alone(true)), None], Some(0))), "none");
}

#[test]
fn a_circle_of_channels_does_not_confuse_the_search() {
    let (one, two) = (Some(replica_of(2)), Some(replica_of(1)));
    assert_eq!(
        kind(&found(&[Some(alone(false)), one, two], None)),
        "unconfirmed"
    );
}

#[test]
fn the_source_is_confirmed_by_its_life_not_by_its_address() {
    let mut lab = Lab::running(2, "A:1-5");
    lab.lose(1, 10);
    assert_eq!(lab.view().source, Ok(ServerIx(0)), "confirmed before");
    lab.identify(0, 3, 20);
    assert!(lab.view().source.is_err());
    let polled = Event::Polled {
        server: uuid(3),
        status: alone(false),
        asked: at(21),
    };
    lab.apply(0, polled, 21);
    lab.sampled(0, sample(3, "", 22, 22));
    let view = lab.view();
    let Err(error) = view.source else {
        panic!("another server at the address of the source is no source");
    };
    assert_eq!(
        error.to_string(),
        "unconfirmed source: db0 accepts writes, but no reachable server replicates from it and others cannot be reached"
    );
}

#[test]
fn roles_follow_the_answers() {
    let mut lab = Lab::running(3, "A:1-5");
    let roles = |lab: &Lab| [0, 1, 2].map(|server| lab.server(server).role);
    assert_eq!(roles(&lab), [Role::Source, Role::Replica, Role::Replica]);
    lab.polled(0, alone(true), 10);
    lab.polled(1, alone(false), 11);
    lab.polled(2, replica_of(1), 12);
    assert_eq!(roles(&lab), [Role::Unknown, Role::Source, Role::Replica]);
    assert_eq!(
        lab.server(1).fresh_as_of,
        None,
        "a new source has a new history"
    );
}
