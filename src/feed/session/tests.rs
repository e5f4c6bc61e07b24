//! Connections against a model of what ProxySQL 2.7.1 does with each byte.

mod parser;

use proptest::prelude::*;

use super::*;
use crate::fleet::testing::set;
use parser::ProxySql;

fn evidence(life: u32, executed: &str) -> Option<Evidence> {
    Some(Evidence {
        life: Life(life),
        executed: Arc::new(set(executed)),
    })
}

/// All that the session has to say now.
fn said(session: &mut Session) -> Result<String, End> {
    let mut text = Vec::new();
    loop {
        let mut piece = Vec::new();
        session.fill(&mut piece)?;
        if piece.is_empty() {
            return Ok(String::from_utf8(text).expect("lines are ASCII"));
        }
        text.extend(piece);
    }
}

fn spelled(text: &str) -> String {
    let uuid = |name| crate::fleet::testing::uuid(name).to_string();
    text.replace("AH", &uuid(0).replace('-', ""))
        .replace("BH", &uuid(1).replace('-', ""))
        .replace('A', &uuid(0))
        .replace('B', &uuid(1))
}

#[test]
fn without_evidence_nothing_is_said_and_the_connection_is_held() {
    let mut session = Session::default();
    for _ in 0..3 {
        assert_eq!(session.see(None), Ok(()));
        assert_eq!(said(&mut session).unwrap(), "");
    }
    session.see(evidence(1, "A:1-5")).unwrap();
    assert_eq!(said(&mut session).unwrap(), spelled("ST=A:1-5\n"));
}

#[test]
fn a_growing_set_is_told_by_what_it_grew() {
    let mut session = Session::default();
    session.see(evidence(1, "A:1-5")).unwrap();
    assert_eq!(said(&mut session).unwrap(), spelled("ST=A:1-5\n"));
    assert_eq!(said(&mut session).unwrap(), "");
    session.see(evidence(1, "A:1-6:9")).unwrap();
    session.see(evidence(1, "A:1-7:9")).unwrap();
    assert_eq!(
        said(&mut session).unwrap(),
        spelled("I1=AH:6\nI2=7\nI2=9\n")
    );
    session.see(evidence(1, "A:1-10,B:1")).unwrap();
    assert_eq!(
        said(&mut session).unwrap(),
        spelled("I2=8\nI2=10\nI1=BH:1\n")
    );
    session.see(evidence(1, "A:1-10:tag:1-3,B:1")).unwrap();
    assert_eq!(said(&mut session).unwrap(), "");
}

#[test]
fn the_connection_ends_when_evidence_is_lost() {
    let mut session = Session::default();
    session.see(evidence(1, "A:1-5")).unwrap();
    assert_eq!(session.see(None), Err(End::EvidenceLost));
}

#[test]
fn the_connection_ends_with_the_epoch_even_where_the_set_grew() {
    for later in ["A:1-3", "A:1-5", "A:1-50", "B:1"] {
        let mut session = Session::default();
        session.see(evidence(1, "A:1-5")).unwrap();
        assert_eq!(
            session.see(evidence(2, later)),
            Err(End::NewEpoch),
            "{later}"
        );
    }
}

#[test]
fn a_set_that_shrank_is_never_kept_up_whatever_the_fleet_says() {
    let mut session = Session::default();
    session.see(evidence(1, "A:1-5")).unwrap();
    assert_eq!(session.see(evidence(1, "A:1-4:6-9")), Err(End::NewEpoch));
}

#[test]
fn a_leap_ends_the_connection_and_the_next_one_starts_with_all_of_it() {
    let mut session = Session::default();
    session.see(evidence(1, "A:1-5")).unwrap();
    said(&mut session).unwrap();
    let most = 5 + INCREMENTS_MAX;
    session.see(evidence(1, &format!("A:1-{most}"))).unwrap();
    let lines = said(&mut session).unwrap();
    assert_eq!(lines.lines().count() as u64, INCREMENTS_MAX);
    // Tagged ones are not told, and do not count.
    let tagged = format!("A:1-{most}:tag:1-{}", 2 * most);
    session.see(evidence(1, &tagged)).unwrap();
    assert_eq!(said(&mut session).unwrap(), "");
    let leap = format!("A:1-{}", most + INCREMENTS_MAX + 1);
    let leap = format!("{leap}:tag:1-{}", 2 * most);
    session.see(evidence(1, &leap)).unwrap();
    assert_eq!(said(&mut session), Err(End::Leap));
    let mut next = Session::default();
    next.see(evidence(1, &leap)).unwrap();
    assert!(said(&mut next).unwrap().len() < 80);
}

/// A client that takes nothing while a million transactions pass.
#[test]
fn a_client_that_falls_behind_costs_one_piece_of_memory() {
    let mut session = Session::default();
    session.see(evidence(1, "A:1")).unwrap();
    said(&mut session).unwrap();
    let mut bytes = Vec::new();
    for last in 1..12_u64 {
        let grown = format!("A:1-{}", last * 90_000);
        session.see(evidence(1, &grown)).unwrap();
        if bytes.is_empty() {
            session.fill(&mut bytes).unwrap();
        }
        assert!(bytes.len() <= PIECE + 80, "{} bytes", bytes.len());
    }
    let gaps: Vec<String> = (1..100_000).map(|n| (2 * n).to_string()).collect();
    let mut session = Session::default();
    session
        .see(evidence(1, &format!("A:{}", gaps.join(":"))))
        .unwrap();
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    while {
        bytes.clear();
        session.fill(&mut bytes).unwrap();
        !bytes.is_empty()
    } {
        assert!(bytes.len() <= PIECE + 80);
        pieces += 1;
    }
    assert!(pieces > 100);
}

/// What happens to a server, and to the connection.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// These numbers of a server are executed; a tag is 1 in four.
    Executes {
        server: usize,
        tag: bool,
        start: u64,
        len: u64,
    },
    Lost,
    Back,
    /// Another epoch, with this much of the old set.
    Reset {
        keep: u64,
    },
    /// The client takes at most this many pieces.
    Takes {
        pieces: usize,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    let executes = (
        0..3_usize,
        0..4_u8,
        1..30_000_u64,
        prop_oneof![1..4_u64, 1..9000_u64],
    )
        .prop_map(|(server, tag, start, len)| Happening::Executes {
            server,
            tag: tag == 0,
            start,
            len,
        });
    prop_oneof![
        8 => executes,
        1 => Just(Happening::Lost),
        2 => Just(Happening::Back),
        1 => (0..20_000_u64).prop_map(|keep| Happening::Reset { keep }),
        6 => (1..6_usize).prop_map(|pieces| Happening::Takes { pieces }),
    ]
}

/// A server, the session that tells of it, and who listens.
struct Lab {
    executed: GtidSet,
    life: u32,
    live: bool,
    session: Session,
    peer: ProxySql,
}

impl Lab {
    fn new() -> Self {
        Self {
            executed: GtidSet::default(),
            life: 1,
            live: true,
            session: Session::default(),
            peer: ProxySql::default(),
        }
    }

    fn happens(&mut self, what: Happening) {
        match what {
            Happening::Executes {
                server,
                tag,
                start,
                len,
            } => {
                let tag = if tag { ":tag" } else { "" };
                let name = ["A", "B", "C"][server];
                let more = set(&format!("{name}{tag}:{start}-{}", start + len - 1));
                self.executed.union_with(&more);
            }
            Happening::Lost => self.live = false,
            Happening::Back => self.live = true,
            Happening::Reset { keep } => {
                self.executed = self.executed.intersect(&set(&format!("A:1-{}", keep + 1)));
                self.life += 1;
            }
            Happening::Takes { pieces } => {
                for _ in 0..pieces {
                    if self.takes() {
                        break;
                    }
                }
            }
        }
    }

    /// As the connection's task does it; true when there was nothing to take.
    fn takes(&mut self) -> bool {
        let known = self.live.then(|| Evidence {
            life: Life(self.life),
            executed: Arc::new(self.executed.clone()),
        });
        let mut bytes = Vec::new();
        let outcome = self
            .session
            .see(known)
            .and_then(|()| self.session.fill(&mut bytes));
        if outcome.is_err() {
            // The connection ended: ProxySQL drops all and connects again.
            self.session = Session::default();
            self.peer = ProxySql::default();
            return false;
        }
        let may = untagged(&self.executed);
        for piece in bytes.chunks(997) {
            self.peer.reads(piece);
            let claims = self.peer.claims();
            assert!(may.contains_set(claims), "claims {claims} of {may}");
        }
        if bytes.is_empty() && self.live {
            assert_eq!(self.peer.claims(), &may, "all was said");
        }
        bytes.is_empty()
    }
}

fn untagged(executed: &GtidSet) -> GtidSet {
    let mut out = GtidSet::default();
    for (sid, own) in executed.sids().filter(|(sid, _)| sid.tag.is_none()) {
        for (start, end) in own.iter() {
            out.insert_range(*sid, start, end);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn proxysql_never_claims_more_than_is_executed_and_in_the_end_all_of_it(
        happenings in prop::collection::vec(happening(), 1..40),
    ) {
        let mut lab = Lab::new();
        for happening in happenings {
            lab.happens(happening);
        }
        lab.live = true;
        // The end of a connection that was due, and then everything.
        for _ in 0..1000 {
            if lab.takes() {
                break;
            }
        }
        prop_assert_eq!(lab.peer.claims(), &untagged(&lab.executed));
    }
}
