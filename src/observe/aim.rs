//! What a pump waits for: the transaction whose appearance is news.
//!
//! MySQL waits for a set that is named, not for "anything new", so a pump has to
//! guess what comes next. A wrong guess costs time, never truth: every answer
//! carries the whole executed set.

use std::sync::Arc;
use std::time::Duration;

use super::Settings;
use crate::fleet::{FleetView, ServerView};
use crate::gtid::{Gtid, GtidSet, Sid};
use crate::moment::Moment;

/// How long the pump waits where it may be waiting for the wrong thing: on a set
/// with gaps, and for a while after something else came.
const GAP_SLICE: Duration = Duration::from_millis(10);
/// How long that while is.
const SURPRISED: Duration = Duration::from_secs(1);

/// What one pump has learnt about how its server's set grows.
#[derive(Debug, Default)]
pub(super) struct Aim {
    seen: Arc<GtidSet>,
    /// The newest transaction that came while looking.
    grown: Option<Gtid>,
    /// When something came that was not waited for.
    surprised: Option<Moment>,
}

impl Aim {
    /// The next transaction that can be named, and how long to wait for it.
    pub(super) fn next(
        &self,
        view: &FleetView,
        server: &ServerView,
        settings: &Settings,
        now: Moment,
    ) -> (Option<Gtid>, Duration) {
        let Some(executed) = server.executed() else {
            return (None, settings.source_heartbeat);
        };
        let heartbeat = match view.main_sid {
            Some(_) if view.source != Ok(server.ix) => settings.replica_heartbeat,
            _ => settings.source_heartbeat,
        };
        let Some(sid) = self.sid(view, server) else {
            return (None, heartbeat);
        };
        let surprised = self.surprised.is_some_and(|at| now.since(at) < SURPRISED);
        let gaps = executed.intervals(&sid).is_some_and(|own| own.len() > 1);
        let wait = if surprised || gaps {
            GAP_SLICE.min(heartbeat)
        } else {
            heartbeat
        };
        (Gtid::new(sid, self.after(executed, &sid) + 1), wait)
    }

    /// Takes in what an answer said; `awaited` is what was waited for.
    pub(super) fn saw(&mut self, awaited: Option<&Gtid>, set: &Arc<GtidSet>, now: Moment) {
        if Arc::ptr_eq(set, &self.seen) {
            return;
        }
        let grown_by = set.subtract(&self.seen);
        let first_look = self.seen.is_empty();
        self.seen = Arc::clone(set);
        if first_look || grown_by.is_empty() {
            return;
        }
        if awaited.is_some_and(|awaited| !set.contains(awaited)) {
            self.surprised = Some(now);
        }
        let same = self.grown.and_then(|last| newest(&grown_by, &last.sid));
        let any = || grown_by.sids().find_map(|(sid, _)| newest(&grown_by, sid));
        self.grown = same.or_else(any);
    }

    /// Where the next transaction will be: where the source commits; with no
    /// source known (a server observed by itself, say), where this one grew last,
    /// or else what the server it replicates from writes itself.
    fn sid(&self, view: &FleetView, server: &ServerView) -> Option<Sid> {
        let upstream = || {
            let channels = &server.status()?.channels;
            channels.iter().find_map(|channel| channel.source_uuid)
        };
        view.main_sid
            .or(self.grown.map(|gtid| gtid.sid))
            .or_else(|| upstream().map(Sid::from))
    }

    /// The end of the interval that grows.
    fn after(&self, executed: &GtidSet, sid: &Sid) -> u64 {
        let Some(own) = executed.intervals(sid) else {
            return 0;
        };
        let grown = self.grown.filter(|grown| grown.sid == *sid);
        let grows = |(start, end): &(u64, u64)| {
            grown.is_some_and(|grown| (*start..=*end).contains(&grown.gno))
        };
        let growing = own.iter().rev().find(grows).map(|(_, end)| end);
        let from_one = || Some(own.watermark()).filter(|watermark| *watermark > 0);
        // A set restored from a backup may begin anywhere.
        let last = || own.iter().next_back().map(|(_, end)| end);
        growing.or_else(from_one).or_else(last).unwrap_or(0)
    }
}

/// The largest number of `sid` in the set.
fn newest(set: &GtidSet, sid: &Sid) -> Option<Gtid> {
    let (_, end) = set.intervals(sid)?.iter().next_back()?;
    Gtid::new(*sid, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::{Lab, alone, at, channel, ix, replica_of, set, sid};

    const MS: Duration = Duration::from_millis(1);

    fn next(aim: &Aim, lab: &Lab, server: usize, ms: u64) -> (Option<Gtid>, Duration) {
        let view = lab.view();
        aim.next(&view, view.server(ix(server)), &Settings::default(), at(ms))
    }

    fn gtid(server: usize, gno: u64) -> Option<Gtid> {
        Gtid::new(sid(server), gno)
    }

    /// One replica, and nobody who knows its source.
    fn lone(executed: &str) -> Lab {
        let mut lab = Lab::unknown(1);
        lab.identify(0, 1, 0);
        lab.apply(
            0,
            crate::fleet::Event::Executed(crate::fleet::testing::sample(1, executed, 0, 0)),
            0,
        );
        lab
    }

    fn polled_by(lab: &mut Lab, source: usize) {
        let mut status = replica_of(source);
        status.channels = vec![channel(source, true)];
        lab.apply(
            0,
            crate::fleet::Event::Polled {
                server: crate::fleet::testing::uuid(1),
                status,
                asked: at(1),
            },
            1,
        );
    }

    fn saw(aim: &mut Aim, awaited: Option<Gtid>, text: &str, ms: u64) {
        aim.saw(awaited.as_ref(), &Arc::new(set(text)), at(ms));
    }

    #[test]
    fn with_a_source_its_next_commit_is_waited_for() {
        let lab = Lab::running(2, "A:1-5");
        assert_eq!(next(&Aim::default(), &lab, 1, 1), (gtid(0, 6), 500 * MS));
        assert_eq!(next(&Aim::default(), &lab, 0, 1), (gtid(0, 6), 100 * MS));
        let lab = Lab::running(2, "A:1-5:7");
        assert_eq!(next(&Aim::default(), &lab, 1, 1), (gtid(0, 6), 10 * MS));
    }

    #[test]
    fn a_lone_replica_waits_for_its_upstream_and_then_for_what_grows() {
        let mut lab = lone("A:1-5,C:1-9");
        assert_eq!(next(&Aim::default(), &lab, 0, 1), (None, 100 * MS));
        polled_by(&mut lab, 0);
        assert!(lab.view().source.is_err(), "no role is guessed");
        let mut aim = Aim::default();
        assert_eq!(next(&aim, &lab, 0, 1), (gtid(0, 6), 100 * MS));
        saw(&mut aim, None, "A:1-5,C:1-9", 1);
        assert_eq!(next(&aim, &lab, 0, 2), (gtid(0, 6), 100 * MS));
        // The upstream only passes on what C writes.
        saw(&mut aim, gtid(0, 6), "A:1-5,C:1-10", 2);
        assert_eq!(next(&aim, &lab, 0, 3), (gtid(2, 10), 10 * MS));
        assert_eq!(next(&aim, &lab, 0, 1500).1, 100 * MS);
    }

    #[test]
    fn what_was_waited_for_is_no_surprise() {
        let mut lab = Lab::running(2, "A:1-5");
        let mut aim = Aim::default();
        saw(&mut aim, None, "A:1-5", 0);
        lab.executed(1, "A:1-7", 2);
        saw(&mut aim, gtid(0, 6), "A:1-7", 2);
        assert_eq!(next(&aim, &lab, 1, 3), (gtid(0, 8), 500 * MS));
        lab.executed(1, "A:1-7,B:1", 4);
        saw(&mut aim, gtid(0, 8), "A:1-7,B:1", 4);
        assert_eq!(next(&aim, &lab, 1, 5), (gtid(0, 8), 10 * MS));
    }

    #[test]
    fn an_old_gap_does_not_hide_what_comes_next() {
        let mut lab = Lab::running(2, "A:5-9");
        assert_eq!(next(&Aim::default(), &lab, 1, 1).0, gtid(0, 10));
        let mut aim = Aim::default();
        saw(&mut aim, None, "A:5-9", 0);
        lab.executed(1, "A:5-9:20-30", 1);
        saw(&mut aim, gtid(0, 10), "A:5-9:20-30", 1);
        assert_eq!(next(&aim, &lab, 1, 2), (gtid(0, 31), 10 * MS));
    }

    #[test]
    fn a_lone_writable_server_waits_for_its_own_commits() {
        let mut lab = Lab::unknown(1);
        lab.identify(0, 0, 0);
        lab.polled(0, alone(false), 0);
        lab.executed(0, "A:1-5", 0);
        assert_eq!(next(&Aim::default(), &lab, 0, 1), (gtid(0, 6), 100 * MS));
    }
}
