//! The 64 bytes kept for one session: one cache line.

use std::time::Duration;

use super::{Seen, State};
use crate::fleet::Life;
use crate::moment::Moment;

/// Tenths of seconds on Causeway's clock: coarse enough for four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(pub(super) u32);

impl Tick {
    pub(super) const SPAN: Duration = Duration::from_millis(100);

    /// The tick in which `moment` lies.
    pub(super) fn at(moment: Moment) -> Self {
        Self(u32::try_from(moment.micros() / 100_000).unwrap_or(u32::MAX))
    }

    /// The first tick that lies wholly after `moment + span`.
    pub(super) fn after(moment: Moment, span: Duration) -> Self {
        Self(Self::at(moment.plus(span)).0.saturating_add(1))
    }

    /// The end of this tick plus `span`.
    pub(super) fn end_plus(self, span: Duration) -> Moment {
        Moment::from_micros((u64::from(self.0) + 1) * 100_000).plus(span)
    }
}

/// How the requirement is written in the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Nothing,
    One,
    UpTo,
    /// Two or three transactions.
    Few,
    /// In the shard's table of long requirements.
    Long,
}

/// One session. A [`Life`] of 0 stands for none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) key: u128,
    /// Transaction numbers, 0 for none; one but for [`Form::Few`].
    pub(super) gnos: [u64; 3],
    pub(super) last: Life,
    pub(super) before: Life,
    pub(super) last_at: Tick,
    pub(super) before_at: Tick,
    pub(super) expires: Tick,
    pub(super) sid: u16,
    pub(super) form: Form,
    pub(super) crowded: bool,
}

const _: () = assert!(
    size_of::<Slot>() == 64,
    "a session costs what the documentation says"
);

impl Slot {
    /// Which servers the session's reads may have seen.
    pub(super) fn seen(&self) -> Seen {
        let some = |life: Life| (life.0 != 0).then_some(life);
        Seen {
            last: some(self.last),
            before: some(self.before),
            crowded: self.crowded,
        }
    }

    /// Notes that a read was sent to the server living `life`, as decided on
    /// what was known of the session when the read's request arrived.
    pub(super) fn read(
        &mut self,
        life: Life,
        known: Option<&State>,
        now: Moment,
        answer_ttl: Duration,
    ) {
        let covered = known.is_some_and(|known| self.covered_by(known, answer_ttl));
        if life != Life::ANY && covered {
            self.before = Life::default();
            self.crowded = false;
        }
        if self.last != life {
            self.crowded |= self.before.0 != 0 && self.before != life;
            self.before = self.last;
            self.before_at = self.last_at;
            self.last = life;
        }
        // Threads may get here in another order than they read the clock.
        self.last_at = self.last_at.max(Tick::at(now));
    }

    /// All reads sent so far have started by `moment`.
    pub(super) fn reads_started_by(&self, moment: Option<Moment>, answer_ttl: Duration) -> bool {
        self.last.0 == 0 || moment.is_some_and(|moment| self.last_at.end_plus(answer_ttl) <= moment)
    }

    /// A decision on `known` chose a server that has all that the reads before
    /// the newest one showed: it knew where they went, and asked what they may
    /// have shown when all of them had started.
    fn covered_by(&self, known: &State, answer_ttl: Duration) -> bool {
        let seen = &known.seen;
        let before = Some(self.before);
        let knew =
            seen.crowded || (!self.crowded && (seen.last == before || seen.before == before));
        knew && self.before_at.end_plus(answer_ttl) <= known.as_of
    }
}
