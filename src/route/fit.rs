//! Whether one server may serve one read.

use std::sync::Arc;

use super::Ask;
use crate::fleet::{FleetView, Life, Role, ServerView};
use crate::gtid::GtidSet;
use crate::moment::Moment;
use crate::requirement::Requirement;

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

impl Ask {
    /// Whether the replica `server` keeps the promise now.
    pub(super) fn fit(&self, view: &FleetView, server: &ServerView, now: Moment) -> Fit {
        if !server.usable {
            return Fit::NoEvidence;
        }
        if self.session_dropped() {
            return Fit::SourceOnly;
        }
        if !self.requirements().all(|need| view.meets(server, need)) {
            return Fit::Behind;
        }
        if self.policy.max_staleness.is_some_and(|bound| {
            server
                .staleness(now)
                .is_none_or(|staleness| staleness > bound)
        }) {
            return Fit::TooStale;
        }
        if self.is_sessional() {
            if !server.covers_floor {
                return Fit::BelowFloor;
            }
            if server
                .staleness(now)
                .is_none_or(|staleness| staleness > self.session_staleness_max)
            {
                return Fit::TooStale;
            }
        }
        self.fit_earlier_reads(view, server)
    }

    /// Whether `server` has all that the session's earlier reads may have shown.
    pub(super) fn fit_earlier_reads(&self, view: &FleetView, server: &ServerView) -> Fit {
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

    fn seen(&self) -> Option<&crate::session::Seen> {
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
