//! What ProxySQL 2.7.1 makes of a feed's bytes, oddities included: rebuilt from
//! what it was seen to do with each of the inputs below.

use std::collections::BTreeMap;

use crate::gtid::{GtidSet, Sid, Uuid};

/// Longest line, but for `ST=`, that it survives.
const LINE_MAX: usize = 80;

/// One connection's state in ProxySQL.
#[derive(Debug)]
pub(super) struct ProxySql {
    unread: Vec<u8>,
    sets: BTreeMap<String, Vec<(u64, u64)>>,
    /// The UUID that `I2=` refers to.
    uuid: String,
    claimed: GtidSet,
    /// Something that no server can have executed.
    bogus: Option<String>,
    /// Numbers that fail to parse keep what was there before.
    from: u64,
    to: u64,
}

impl Default for ProxySql {
    fn default() -> Self {
        Self {
            unread: Vec::new(),
            sets: BTreeMap::new(),
            uuid: String::new(),
            claimed: GtidSet::default(),
            bogus: None,
            from: 140_412_845_541_424,
            to: 0,
        }
    }
}

impl ProxySql {
    pub(super) fn reads(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8(line).expect("ASCII");
            self.line(line.trim_end_matches('\n'));
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(set) = line.strip_prefix("ST=") {
            for part in set.split(',').filter(|part| !part.is_empty()) {
                self.start(part);
            }
            return;
        }
        assert!(line.len() <= LINE_MAX, "it crashes: {line}");
        let gno = match line.get(..3) {
            Some("I1=") => {
                let (uuid, gno) = line[3..].split_once(':').expect("it crashes");
                uuid.clone_into(&mut self.uuid);
                leading(gno).0.unwrap_or(0)
            }
            Some("I2=") => leading(&line[3..]).0.unwrap_or(0),
            _ if line.starts_with('I') => 0,
            _ => return,
        };
        self.claim(gno, gno);
    }

    /// Its tokens are read as UUID, interval, UUID, interval, …, each UUID
    /// written over the one before.
    fn start(&mut self, part: &str) {
        for (place, token) in part.split(':').enumerate() {
            if place % 2 == 0 {
                let bare = token.replace('-', "");
                let kept = self.uuid.get(bare.len()..).unwrap_or_default().to_owned();
                self.uuid = bare + &kept;
                continue;
            }
            let (from, rest) = leading(token);
            self.from = from.unwrap_or(self.from);
            if let Some(to) = rest.strip_prefix('-').and_then(|to| leading(to).0) {
                self.to = if from.is_some() { to } else { self.to };
            }
            self.claim(self.from, self.to);
        }
    }

    fn claim(&mut self, from: u64, to: u64) {
        let uuid = self.uuid.clone();
        match uuid.parse::<Uuid>() {
            Ok(uuid) if 1 <= from && from <= to => {
                self.claimed.insert_range(Sid::from(uuid), from, to);
            }
            _ => self.bogus = Some(format!("{uuid}:{from}-{to}")),
        }
        self.sets.entry(uuid).or_default().push((from, to));
    }

    /// Everything that a gate would let pass.
    pub(super) fn claims(&self) -> &GtidSet {
        assert_eq!(self.bogus, None);
        &self.claimed
    }

    fn passes(&self, uuid: &str, gno: u64) -> bool {
        let intervals = self.sets.get(&uuid.replace('-', ""));
        intervals
            .into_iter()
            .flatten()
            .any(|(from, to)| (*from..=*to).contains(&gno))
    }
}

/// The digits at the front as a number, and the rest.
fn leading(text: &str) -> (Option<u64>, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

/// The model does what the real one was seen to do.
#[test]
fn the_model_does_what_was_seen() {
    let (u, v) = (
        "11111111-2222-3333-4444-555555555555",
        "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    );
    let check = |sent: &str, pass: &[&str], wait: &[&str]| {
        let spell = |text: &str| {
            text.replace("UH", &u.replace('-', ""))
                .replace("VH", &v.replace('-', ""))
                .replace('U', u)
                .replace('V', v)
        };
        let mut peer = ProxySql::default();
        peer.reads(spell(sent).as_bytes());
        let passes = |gtid: &&str| {
            let gtid = spell(gtid);
            let (uuid, gno) = gtid.split_once(':').unwrap();
            peer.passes(uuid, gno.parse().unwrap())
        };
        assert!(pass.iter().all(passes), "{sent} must let {pass:?} pass");
        assert!(!wait.iter().any(passes), "{sent} must let {wait:?} wait");
    };
    check(
        "ST=U:1-5,U:7-9\n",
        &["U:1", "U:5", "U:7", "U:9"],
        &["U:6", "U:10"],
    );
    check("ST=U:1-5\nI1=UH:10\nI2=11\n", &["U:10", "U:11"], &["U:9"]);
    check("ST=U:1-5\nST=U:8-9\n", &["U:1", "U:8"], &[]);
    check("#\n\nST=U:1-5\n#\n", &["U:5"], &[]);
    check(
        "ST=U:1-5\nI1=VH:3\nI2=4\n",
        &["V:3", "V:4"],
        &["V:5", "U:6"],
    );
    check("ST=U:1-5,V:1-9\nI2=10\n", &["V:10"], &["U:10"]);
    check("ST=U:1-5:7-9\n", &["U:5"], &["U:8"]);
    check("ST=U:1\n", &[], &["U:1"]);
    check("ST=U:1-5,V:7\n", &[], &["V:7"]);
    check("ST=U:1-1\n", &["U:1"], &[]);
    check("ST=\nI1=UH:1\n", &["U:1"], &["U:2"]);
    check("ST=V:1-900,U:tag:1-3\n", &["V:900", "U:850"], &[]);
    check("ST=U:1-5\nI3=UH:6-8\n", &["U:5"], &["U:7"]);
    check("ST=U:1-5\nI1=UH:tag:7\n", &["U:0"], &["U:7"]);
}
