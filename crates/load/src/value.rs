//! Keys and values: a value names its key, its run and its version, and carries a checksum, so that
//! a read proves which write it came from.

use std::fmt;

const MAGIC: &str = "fsl1";
const PADDING: u8 = b'.';

/// Tells the values of one run from those another run left behind under the same prefix. Without
/// it, an old value with a high version would hide a lost new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunId(u64);

impl RunId {
    /// An id that no other run has, by the clock and the process id.
    #[must_use]
    pub fn generate() -> Self {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let nanoseconds = u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or_default();
        Self(nanoseconds ^ (u64::from(std::process::id()) << 44))
    }

    /// Reads the form that `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The name of a key. The index is the hash tag, so every generation of a key stays in one slot:
/// a shard that is down keeps getting the same share of the load.
#[must_use]
pub fn key_name(prefix: &str, index: u32, generation: u32) -> String {
    if generation == 0 {
        format!("{prefix}:{{{index}}}")
    } else {
        format!("{prefix}:{{{index}}}:{generation}")
    }
}

/// The value of one write, padded to `size` (a value is never shorter than what it has to say).
#[must_use]
pub fn encode(run: RunId, key: &str, version: u32, size: usize) -> Vec<u8> {
    let mut body = format!("{run} {version} {key} ").into_bytes();
    let head = MAGIC.len() + 1 + 8 + 1;
    body.resize(body.len().max(size.saturating_sub(head)), PADDING);
    let mut value = format!("{MAGIC} {:08x} ", crc32fast::hash(&body)).into_bytes();
    value.append(&mut body);
    value
}

/// What a stored value turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// Written by this run for this key.
    Ours {
        /// Which write of the key it is.
        version: u32,
    },
    /// A sound value, but of another run or another key.
    Foreign,
    /// Not a value that this tool writes, or damaged.
    Corrupt,
}

/// Reads a stored value back, as the value of `key` in `run`.
#[must_use]
pub fn decode(run: RunId, key: &str, value: &[u8]) -> Decoded {
    parse(run, key, value).unwrap_or(Decoded::Corrupt)
}

fn parse(run: RunId, key: &str, value: &[u8]) -> Option<Decoded> {
    let text = std::str::from_utf8(value).ok()?;
    let body = text.strip_prefix(MAGIC)?.strip_prefix(' ')?;
    let (checksum, body) = body.split_once(' ')?;
    if u32::from_str_radix(checksum, 16).ok()? != crc32fast::hash(body.as_bytes()) {
        return None;
    }
    let mut words = body.split(' ');
    let stored_run = RunId::parse(words.next()?)?;
    let version = words.next()?.parse().ok()?;
    let stored_key = words.next()?;
    if stored_run == run && stored_key == key {
        Some(Decoded::Ours { version })
    } else {
        Some(Decoded::Foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId(0xabc);

    #[test]
    fn a_value_comes_back_and_has_the_asked_size() {
        let key = key_name("load", 7, 0);
        let value = encode(RUN, &key, 42, 128);
        assert_eq!(value.len(), 128);
        assert_eq!(decode(RUN, &key, &value), Decoded::Ours { version: 42 });
    }

    #[test]
    fn a_value_is_never_cut_to_fit() {
        let value = encode(RUN, "load:{7}", 42, 1);
        assert_eq!(decode(RUN, "load:{7}", &value), Decoded::Ours { version: 42 });
    }

    #[test]
    fn damage_anywhere_is_seen() {
        let value = encode(RUN, "load:{7}", 42, 96);
        for position in 0..value.len() {
            let mut damaged = value.clone();
            damaged[position] ^= 1;
            assert_eq!(
                decode(RUN, "load:{7}", &damaged),
                Decoded::Corrupt,
                "byte {position}"
            );
        }
        assert_eq!(decode(RUN, "load:{7}", &value[..95]), Decoded::Corrupt);
        assert_eq!(decode(RUN, "load:{7}", b""), Decoded::Corrupt);
    }

    #[test]
    fn another_run_or_key_is_not_ours() {
        let value = encode(RUN, "load:{7}", 42, 96);
        assert_eq!(decode(RunId(1), "load:{7}", &value), Decoded::Foreign);
        assert_eq!(decode(RUN, "load:{8}", &value), Decoded::Foreign);
    }

    #[test]
    fn generations_of_a_key_share_its_slot() {
        let first = crate::slots::slot_of(&key_name("load", 7, 0));
        assert_eq!(first, crate::slots::slot_of(&key_name("load", 7, 31)));
    }
}
