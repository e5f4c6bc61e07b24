//! Whether one server may serve one read.

use std::sync::Arc;

use super::Ask;
use crate::fleet::{FleetView, Life, Role, ServerView};
use crate::gtid::{GtidSet, Sid};
use crate::moment::Moment;
use crate::requirement::Requirement;
use crate::session::Seen;

/// How a server stands against a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It keeps the promise.
    Fits,
    /// No living connection, or its role is unknown.
    NoEvidence,
    /// It has not executed what is required.
    Behind,
    /// It is too stale, or its staleness is unknown.
    TooStale,
    /// It does not cover what settled sessions are promised.
    BelowFloor,
    /// It has not executed what the session's earlier reads may have shown.
    BehindEarlierReads,
    /// What the session's earlier reads may have shown is not known yet.
    EarlierReadsUnknown,
    /// The session reads from the source only.
    SourceOnly,
}

impl Fit {
    /// The name used in `explain`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::NoEvidence => "no_evidence",
            Self::Behind => "behind",
            Self::TooStale => "too_stale",
            Self::BelowFloor => "below_floor",
            Self::BehindEarlierReads => "behind_earlier_reads",
            Self::EarlierReadsUnknown => "earlier_reads_unknown",
            Self::SourceOnly => "source_only",
        }
    }
}

/// A bound on what an earlier read showed.
enum Bound<'a> {
    Nothing,
    Unknown,
    Set(&'a Arc<GtidSet>),
}

/// What a request demands of every replica alike, worked out once.
pub(super) struct Demands<'a> {
    ask: &'a Ask,
    view: &'a FleetView,
    source_only: bool,
    sessional: bool,
    /// With all up to here executed under the main UUID, every requirement is
    /// met; without, it takes a closer look.
    watermark: u64,
    /// The least `fresh_as_of`; `None` where staleness does not matter.
    fresh_since: Option<Moment>,
    /// The same for serving sessions.
    session_fresh_since: Option<Moment>,
}

impl<'a> Demands<'a> {
    pub(super) fn of(ask: &'a Ask, view: &'a FleetView, now: Moment) -> Self {
        let sessional = ask.is_sessional();
        let watermarks = ask.requirements().map(|need| watermark_for(view, need));
        Self {
            ask,
            view,
            source_only: ask.session_dropped(),
            sessional,
            watermark: watermarks.max().unwrap_or(0),
            fresh_since: ask.policy.max_staleness.map(|bound| now.minus(bound)),
            session_fresh_since: sessional.then(|| now.minus(ask.session_staleness_max)),
        }
    }

    pub(super) fn fit(&self, server: &ServerView) -> Fit {
        if !server.usable {
            return Fit::NoEvidence;
        }
        if self.source_only {
            return Fit::SourceOnly;
        }
        if server.watermark < self.watermark && !self.meets(server) {
            return Fit::Behind;
        }
        if !is_fresh(server, self.fresh_since) {
            return Fit::TooStale;
        }
        if self.sessional && !server.covers_floor {
            return Fit::BelowFloor;
        }
        if !is_fresh(server, self.session_fresh_since) {
            return Fit::TooStale;
        }
        self.ask.fit_earlier_reads(self.view, server)
    }

    /// Where the session's newest read was sent, if reads must not go back.
    pub(super) fn last_read_from(&self) -> Option<Life> {
        self.ask.seen()?.last
    }

    fn meets(&self, server: &ServerView) -> bool {
        let mut needs = self.ask.requirements();
        needs.all(|need| self.view.meets(server, need))
    }
}

/// A watermark of the view's main UUID that is sure to meet `need`.
fn watermark_for(view: &FleetView, need: &Requirement) -> u64 {
    let main = |sid: &Sid| view.main_sid.as_ref() == Some(sid);
    match need {
        Requirement::Nothing => 0,
        Requirement::One(gtid) if main(&gtid.sid) => gtid.gno,
        Requirement::UpTo { sid, gno } if main(sid) => *gno,
        _ => u64::MAX,
    }
}

fn is_fresh(server: &ServerView, since: Option<Moment>) -> bool {
    since.is_none_or(|since| server.fresh_as_of.is_some_and(|fresh| fresh >= since))
}

impl Ask {
    /// Whether the replica `server` keeps the promise now.
    pub(super) fn fit(&self, view: &FleetView, server: &ServerView, now: Moment) -> Fit {
        Demands::of(self, view, now).fit(server)
    }

    /// Whether `server` has all that the session's earlier reads may have shown.
    pub(super) fn fit_earlier_reads(&self, view: &FleetView, server: &ServerView) -> Fit {
        let none_seen = self.seen().is_none_or(|seen| *seen == Seen::default());
        if none_seen && !self.depends_on_all_reads() {
            return Fit::Fits;
        }
        let mut fit = Fit::Fits;
        for bound in self.bounds(view, server.life) {
            match bound {
                Bound::Nothing => {}
                Bound::Unknown => return Fit::EarlierReadsUnknown,
                Bound::Set(set)
                    if server
                        .executed()
                        .is_some_and(|executed| executed.contains_set(set)) => {}
                Bound::Set(_) => fit = Fit::BehindEarlierReads,
            }
        }
        fit
    }

    /// What must be executed on `server`, all in one.
    pub(super) fn need_on(&self, view: &FleetView, server: &ServerView) -> Requirement {
        let mut need = Requirement::Nothing;
        for part in self.requirements() {
            need = need.and(part);
        }
        if let Some(fence) = self
            .fence
            .as_ref()
            .filter(|_| self.policy.max_staleness.is_some())
        {
            need = need.and(&fence.need);
        }
        for bound in self.bounds(view, server.life) {
            if let Bound::Set(set) = bound {
                need = need.and(&Requirement::Set(Arc::clone(set)));
            }
        }
        if self.is_sessional() && !server.covers_floor && server.role == Role::Replica {
            need = need.and(&Requirement::Set(Arc::clone(&view.floor.set)));
        }
        need
    }

    /// An earlier read's server whose bound is not known, if `server` differs.
    pub(super) fn unlocated(&self, view: &FleetView, server: Life) -> Option<Life> {
        let seen = self.seen().filter(|_| !self.depends_on_all_reads())?;
        let unknown =
            |life: &Life| *life != server && matches!(self.bound(view, *life), Bound::Unknown);
        seen.last.into_iter().chain(seen.before).find(unknown)
    }

    /// The request asks for what only a fence can tell.
    pub(super) fn needs_fence(&self) -> bool {
        self.depends_on_all_reads()
    }

    /// The session's and the token's part of the requirement.
    pub(super) fn writes(&self) -> impl Iterator<Item = &Requirement> {
        let consistency = self.policy.consistency;
        let session = self
            .session
            .as_ref()
            .filter(|_| consistency.keeps_writes())
            .map(|state| &state.requirement);
        let token = Some(&self.token).filter(|_| consistency.keeps_token());
        session
            .into_iter()
            .chain(token)
            .filter(|need| !need.is_nothing())
    }

    pub(super) fn session_dropped(&self) -> bool {
        self.is_sessional() && self.session.as_ref().is_some_and(|state| state.dropped)
    }

    /// The promise depends on what the session did before.
    fn is_sessional(&self) -> bool {
        let consistency = self.policy.consistency;
        self.session.is_some() && (consistency.keeps_writes() || consistency.keeps_reads())
    }

    fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        let strong = self.policy.consistency == super::Consistency::Strong;
        let fence = self
            .fence
            .as_ref()
            .filter(|_| strong)
            .map(|fence| &fence.need);
        self.writes().chain(fence)
    }

    fn seen(&self) -> Option<&Seen> {
        self.session
            .as_ref()
            .filter(|_| self.policy.consistency.keeps_reads())
            .map(|state| &state.seen)
    }

    fn bounds<'a>(&'a self, view: &FleetView, server: Life) -> [Bound<'a>; 2] {
        if self.depends_on_all_reads() {
            return [self.upper(), Bound::Nothing];
        }
        let Some(seen) = self.seen() else {
            return [Bound::Nothing, Bound::Nothing];
        };
        let of = |life: Option<Life>| match life {
            Some(life) if life != server => self.bound(view, life),
            _ => Bound::Nothing,
        };
        [of(seen.last), of(seen.before)]
    }

    /// Reads of anybody, or of too many servers to ask, may have shown anything
    /// that the source was about to commit. A strong read must not go back
    /// behind another reader either, or it would not be linearizable.
    fn depends_on_all_reads(&self) -> bool {
        self.policy.consistency == super::Consistency::Strong
            || self.seen().is_some_and(|seen| seen.crowded)
            || (self.session_dropped() && self.policy.consistency.keeps_reads())
    }

    /// What the server living `life` may have shown before this request.
    fn bound(&self, view: &FleetView, life: Life) -> Bound<'_> {
        if let Some((_, set)) = self.located.iter().find(|(located, _)| *located == life) {
            return Bound::Set(set);
        }
        // A server that cannot be asked any more showed at most what the source
        // had committed or was about to.
        match view.living(life) {
            Some(server) if server.usable => Bound::Unknown,
            _ => self.upper(),
        }
    }

    fn upper(&self) -> Bound<'_> {
        self.fence
            .as_ref()
            .map_or(Bound::Unknown, |fence| Bound::Set(&fence.upper))
    }
}
