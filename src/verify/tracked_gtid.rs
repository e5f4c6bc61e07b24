//! The GTID that an OK packet carries.
//!
//! The server sends it as an encoding byte, a length and the text, and the
//! protocol crate hands out all of it. With the two bytes left in front,
//! `WAIT_FOR_EXECUTED_GTID_SET` returns at once, silently: so the bytes are
//! stripped and the text is checked before anyone uses it.

/// The GTID set in the raw bytes of a session state change, if it is one.
pub(super) fn parse_tracked_gtid(raw: &[u8]) -> Option<String> {
    let text = match raw {
        [0, rest @ ..] => length_encoded(rest)?,
        text => text,
    };
    let text = std::str::from_utf8(text).ok()?;
    let every_set_is_sound = text.split(',').all(is_uuid_set);
    every_set_is_sound.then(|| text.to_owned())
}

/// A string with MySQL's length prefix, which must fit exactly.
fn length_encoded(bytes: &[u8]) -> Option<&[u8]> {
    let (length, text) = match bytes {
        [length @ 0..=0xfa, text @ ..] => (usize::from(*length), text),
        [0xfc, low, high, text @ ..] => (usize::from(u16::from_le_bytes([*low, *high])), text),
        _ => return None,
    };
    (text.len() == length).then_some(text)
}

/// `uuid:1-5:7:tag:3`: a UUID and at least one part of plain characters.
fn is_uuid_set(text: &str) -> bool {
    let Some((uuid, parts)) = text.trim().split_once(':') else {
        return false;
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let mut parts = parts.split(':');
    uuid.len() == 36
        && uuid
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && parts.all(|part| !part.is_empty() && part.bytes().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GTID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23";

    #[test]
    fn the_prefix_is_stripped() {
        let raw = [&[0, 39], GTID.as_bytes()].concat();
        assert_eq!(parse_tracked_gtid(&raw).as_deref(), Some(GTID));
        assert_eq!(parse_tracked_gtid(GTID.as_bytes()).as_deref(), Some(GTID));
    }

    #[test]
    fn a_long_set_has_a_longer_prefix() {
        let sets = [GTID; 10].join(",");
        let length = u16::try_from(sets.len()).unwrap().to_le_bytes();
        let raw = [&[0, 0xfc, length[0], length[1]], sets.as_bytes()].concat();
        assert_eq!(parse_tracked_gtid(&raw), Some(sets));
    }

    #[test]
    fn tags_are_part_of_a_set() {
        let tagged = format!("{GTID}:orders:1-4");
        assert_eq!(parse_tracked_gtid(tagged.as_bytes()), Some(tagged));
    }

    #[test]
    fn what_is_no_gtid_is_refused() {
        let with_garbage = [&[0, 40], GTID.as_bytes()].concat();
        for raw in [
            &b""[..],
            b"\0",
            b"\0\0",
            b"'; DROP",
            b"3e11:1",
            &with_garbage,
        ] {
            assert_eq!(parse_tracked_gtid(raw), None, "{raw:?}");
        }
    }
}
