//! One connection of a ProxySQL: what it is told, and when it must be closed.
//!
//! Pure: evidence goes in, bytes or an end come out. The rules:
//!
//! - Without evidence nothing is said, and the connection is held: ProxySQL then
//!   lets every gated read wait, and hears of the server the moment it is known.
//!   (Closing instead would cost 2.7.1 a file descriptor at every retry.)
//! - ProxySQL cannot be told to forget. It drops what it was told when the
//!   connection ends, and so the connection ends when evidence is lost and when
//!   a new epoch begins.
//! - Within an epoch a set only grows; what it grows by is told.
//!
//! What is still to be said is kept as a set, not as bytes: a client that reads
//! slowly costs no more memory the further it falls behind.

use std::sync::Arc;

use super::lines::{self, Increments, Start, Told};
use crate::fleet::{Life, ServerView};
use crate::gtid::{GtidSet, Uuid};

/// Bytes made ready at once, but for the end of a line.
pub(super) const PIECE: usize = 16 << 10;

/// Most transactions that are told one by one, a megabyte of lines. Telling
/// those takes ProxySQL less time than a connection made anew, up to three
/// seconds in which all gated reads wait instead of only those for the newest
/// writes. Beyond it (`gtid_purged` was set, say) the new connection is quicker.
pub(super) const INCREMENTS_MAX: u64 = 100_000;

/// What a server itself reported in its present epoch.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub(super) life: Life,
    pub(super) executed: Arc<GtidSet>,
}

impl Evidence {
    /// What is known of a server, whatever its role.
    pub(super) fn of(server: &ServerView) -> Option<Self> {
        Some(Self {
            life: server.life,
            executed: Arc::clone(server.executed()?),
        })
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server's evidence was lost: unknown is not fresh.
    EvidenceLost,
    /// Another epoch began: what was told does not hold any more.
    NewEpoch,
    /// The set grew by more than is told one by one.
    Leap,
    /// The client did not take what it was sent in time.
    Slow,
    /// The client sent something, which ProxySQL never does.
    Talkative,
    /// The client closed the connection, or the network did.
    Gone,
    /// Causeway stops.
    Stopped,
}

impl End {
    /// Every end.
    pub const ALL: [Self; 7] = [
        Self::EvidenceLost,
        Self::NewEpoch,
        Self::Leap,
        Self::Slow,
        Self::Talkative,
        Self::Gone,
        Self::Stopped,
    ];

    /// The name used in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EvidenceLost => "evidence_lost",
            Self::NewEpoch => "new_epoch",
            Self::Leap => "leap",
            Self::Slow => "slow",
            Self::Talkative => "talkative",
            Self::Gone => "gone",
            Self::Stopped => "stopped",
        }
    }
}

/// What one connection was told.
#[derive(Debug, Default)]
pub(super) struct Session {
    telling: Option<Telling>,
    /// The UUID that the last increment named.
    named: Option<Uuid>,
}

#[derive(Debug)]
struct Telling {
    newest: Evidence,
    /// What the client knows once `saying` is said.
    told: Arc<GtidSet>,
    saying: Option<Saying>,
}

#[derive(Debug)]
enum Saying {
    Start(Start),
    More(Increments),
}

impl Session {
    /// Takes in what is known of the server now.
    pub(super) fn see(&mut self, known: Option<Evidence>) -> Result<(), End> {
        match (&mut self.telling, known) {
            (None, None) => Ok(()),
            (Some(_), None) => Err(End::EvidenceLost),
            (None, Some(known)) => {
                self.telling = Some(Telling {
                    told: Arc::clone(&known.executed),
                    saying: Some(Saying::Start(Start::of(Arc::clone(&known.executed)))),
                    newest: known,
                });
                Ok(())
            }
            (Some(telling), Some(known)) => telling.see(known),
        }
    }

    /// Appends what is to be said next, about [`PIECE`] bytes at most; nothing
    /// when all is said. Gives the number of lines that ended.
    pub(super) fn fill(&mut self, out: &mut Vec<u8>) -> Result<u64, End> {
        let Some(telling) = &mut self.telling else {
            return Ok(0);
        };
        let mut out = Told {
            bytes: out,
            room: PIECE,
            lines: 0,
        };
        while out.bytes.len() < PIECE {
            let Some(saying) = telling.next()? else { break };
            let done = match saying {
                Saying::Start(line) => {
                    let done = line.fill(out.bytes, PIECE);
                    out.lines += u64::from(done);
                    done
                }
                Saying::More(lines) => lines.fill(&mut out, &mut self.named),
            };
            if done {
                telling.saying = None;
            }
        }
        Ok(out.lines)
    }
}

impl Telling {
    fn see(&mut self, known: Evidence) -> Result<(), End> {
        if known.life != self.newest.life {
            return Err(End::NewEpoch);
        }
        if Arc::ptr_eq(&known.executed, &self.newest.executed) {
            return Ok(());
        }
        // The fleet begins a new epoch then; a claim too many would never be
        // taken back, so it is looked at here too.
        if !known.executed.contains_set(&self.newest.executed) {
            return Err(End::NewEpoch);
        }
        self.newest = known;
        Ok(())
    }

    /// What is being said, or what the set has grown by meanwhile.
    fn next(&mut self) -> Result<Option<&mut Saying>, End> {
        if self.saying.is_none() && !Arc::ptr_eq(&self.told, &self.newest.executed) {
            let grown_by = self.newest.executed.subtract(&self.told);
            if lines::tellable(&grown_by) > INCREMENTS_MAX {
                return Err(End::Leap);
            }
            self.told = Arc::clone(&self.newest.executed);
            self.saying = Some(Saying::More(Increments::of(grown_by)));
        }
        Ok(self.saying.as_mut())
    }
}

#[cfg(test)]
mod tests;
