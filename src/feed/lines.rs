//! The lines of ProxySQL's binlog reader protocol, in the one form that every
//! known version reads alike.
//!
//! What ProxySQL 2.7.1 and 3.x make of other forms was measured, and decides
//! here: in `ST=`, only the first interval after a UUID counts, so the UUID is
//! repeated before each; a single number is read with an end left over from
//! before, so it is `N-N`; a tag makes 2.7.1 claim numbers that it was never
//! told, so tagged GTIDs are left out; ranges (`I3=`, `I4=`) are claimed to be 0
//! before 3.0.8, so every number has a line; and a line other than `ST=` of 100
//! bytes kills 2.7.1. Upper case is another server to it.
//!
//! A line is made piece by piece, so that a set of any size needs a small
//! buffer. It must not know where sets come from, nor sockets.

use std::io::Write;
use std::sync::Arc;

use crate::gtid::{GtidSet, Uuid};

/// A line that both parsers ignore: it shows whether the peer is still there.
pub(super) const KEEP_ALIVE: &[u8] = b"#\n";

/// The transactions that ProxySQL can be told of: those without a tag.
pub(super) fn tellable(set: &GtidSet) -> u64 {
    let untagged = set.sids().filter(|(sid, _)| sid.tag.is_none());
    untagged
        .map(|(_, own)| own.count())
        .fold(0, u64::saturating_add)
}

/// The first line of a connection: the whole set.
#[derive(Debug)]
pub(super) struct Start {
    spans: Spans,
    begun: bool,
    first: bool,
}

impl Start {
    pub(super) fn of(set: Arc<GtidSet>) -> Self {
        Self {
            spans: Spans::of(set),
            begun: false,
            first: true,
        }
    }

    /// Appends what comes next, until `out` holds `room` bytes or a few more;
    /// true when the line has ended.
    pub(super) fn fill(&mut self, out: &mut Vec<u8>, room: usize) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(b"ST=");
        }
        while out.len() < room {
            let Some((uuid, start, end)) = self.spans.next() else {
                out.push(b'\n');
                return true;
            };
            let comma = if std::mem::take(&mut self.first) {
                ""
            } else {
                ","
            };
            put(out, format_args!("{comma}{uuid}:{start}-{end}"));
        }
        false
    }
}

/// What has been executed since: a line for each transaction.
#[derive(Debug)]
pub(super) struct Increments {
    spans: Spans,
    /// What is left of the interval being told.
    rest: Option<(Uuid, u64, u64)>,
}

impl Increments {
    pub(super) fn of(grown_by: GtidSet) -> Self {
        Self {
            spans: Spans::of(Arc::new(grown_by)),
            rest: None,
        }
    }

    /// Appends lines, until `out` holds `room` bytes or a few more; true when
    /// all are told. `named` is the UUID of the last line on this connection,
    /// which `I2=` refers to.
    pub(super) fn fill(&mut self, out: &mut Told<'_>, named: &mut Option<Uuid>) -> bool {
        while out.bytes.len() < out.room {
            let Some((uuid, gno, end)) = self.rest.take().or_else(|| self.spans.next()) else {
                return true;
            };
            if named.replace(uuid) == Some(uuid) {
                put(out.bytes, format_args!("I2={gno}\n"));
            } else {
                let bare = u128::from_be_bytes(uuid.to_bytes());
                put(out.bytes, format_args!("I1={bare:032x}:{gno}\n"));
            }
            out.lines += 1;
            self.rest = (gno < end).then(|| (uuid, gno + 1, end));
        }
        false
    }
}

/// Where lines go.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    /// No line is begun past this many bytes.
    pub(super) room: usize,
    /// Lines that were completed.
    pub(super) lines: u64,
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory");
}

/// The untagged intervals of a set, in order, without borrowing it.
#[derive(Debug)]
struct Spans {
    set: Arc<GtidSet>,
    sid: usize,
    interval: usize,
}

impl Spans {
    fn of(set: Arc<GtidSet>) -> Self {
        Self {
            set,
            sid: 0,
            interval: 0,
        }
    }
}

impl Iterator for Spans {
    type Item = (Uuid, u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (sid, own) = self.set.sids().nth(self.sid)?;
            let span = own.iter().nth(self.interval).filter(|_| sid.tag.is_none());
            if let Some((start, end)) = span {
                self.interval += 1;
                return Some((sid.uuid, start, end));
            }
            (self.sid, self.interval) = (self.sid + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gtid::GNO_MAX;

    const U: &str = "11111111-2222-3333-4444-555555555555";
    const V: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

    fn spelled(text: &str) -> String {
        text.replace("UH", &U.replace('-', ""))
            .replace("VH", &V.replace('-', ""))
            .replace('U', U)
            .replace('V', V)
    }

    fn set(text: &str) -> GtidSet {
        spelled(text).parse().unwrap()
    }

    fn start(text: &str) -> String {
        let mut line = Start::of(Arc::new(set(text)));
        let mut out = Vec::new();
        while !line.fill(&mut out, usize::MAX) {}
        String::from_utf8(out).unwrap()
    }

    fn more(text: &str, named: &mut Option<Uuid>) -> String {
        let mut bytes = Vec::new();
        let mut out = Told {
            bytes: &mut bytes,
            room: usize::MAX,
            lines: 0,
        };
        assert!(Increments::of(set(text)).fill(&mut out, named));
        assert_eq!(out.lines, tellable(&set(text)));
        String::from_utf8(bytes).unwrap()
    }

    /// Each right side was sent to a real ProxySQL 2.7.1 and read as meant.
    #[test]
    fn a_whole_set_is_written_as_every_version_reads_it() {
        for (executed, line) in [
            ("", "ST="),
            ("U:1-5", "ST=U:1-5"),
            ("U:1-5:7-9", "ST=U:1-5,U:7-9"),
            ("U:1", "ST=U:1-1"),
            ("U:1-5,V:7", "ST=U:1-5,V:7-7"),
            ("V:1-9,U:1-5", "ST=U:1-5,V:1-9"),
            // A tag makes 2.7.1 claim what it was never told.
            ("U:tag:1-5", "ST="),
            ("V:1-900,U:tag:1-3", "ST=V:1-900"),
            ("U:1-2:tag:1-3:other:9,V:4-5", "ST=U:1-2,V:4-5"),
            // Upper case would be another server.
            ("AAAAAAAA-bbbb-cccc-dddd-EEEEEEEEEEEE:3", "ST=V:3-3"),
        ] {
            assert_eq!(start(executed), spelled(line) + "\n", "{executed}");
        }
    }

    #[test]
    fn increments_name_the_uuid_first_and_whenever_it_changes() {
        let named = &mut None;
        assert_eq!(more("U:10-11", named), spelled("I1=UH:10\nI2=11\n"));
        assert_eq!(more("U:12:20", named), "I2=12\nI2=20\n");
        assert_eq!(more("U:13,V:3-4", named), spelled("I2=13\nI1=VH:3\nI2=4\n"));
        assert_eq!(more("U:14", named), spelled("I1=UH:14\n"));
        assert_eq!(more("U:tag:1-4", named), "");
        assert_eq!(more("U:15:tag:5", named), "I2=15\n");
    }

    /// 100 bytes crash 2.7.1; 80 are what its buffer holds.
    #[test]
    fn no_line_but_the_first_reaches_80_bytes() {
        let text = more(&format!("U:{GNO_MAX}"), &mut None);
        assert!(text.len() < 80, "{text}");
        assert!(KEEP_ALIVE.len() < 80);
    }

    #[test]
    fn a_line_is_the_same_in_pieces_of_any_size() {
        let executed = "U:1-5:7-9:11:tag:1-4,V:2:4-6";
        for room in 1..60 {
            let (mut line, mut text) = (Start::of(Arc::new(set(executed))), Vec::new());
            loop {
                let mut piece = Vec::new();
                let done = line.fill(&mut piece, room);
                assert!(piece.len() < room + 80, "{} of {room}", piece.len());
                text.extend(piece);
                if done {
                    break;
                }
            }
            assert_eq!(String::from_utf8(text).unwrap(), start(executed));
            let (mut lines, mut text, mut named) =
                (Increments::of(set(executed)), Vec::new(), None);
            loop {
                let mut bytes = Vec::new();
                let mut out = Told {
                    bytes: &mut bytes,
                    room,
                    lines: 0,
                };
                let done = lines.fill(&mut out, &mut named);
                assert!(bytes.len() < room + 80);
                text.extend(bytes);
                if done {
                    break;
                }
            }
            assert_eq!(String::from_utf8(text).unwrap(), more(executed, &mut None));
        }
    }
}
