//! Hash slots: which of the 16384 a key belongs to.

/// How many hash slots a cluster has.
pub const SLOTS: u16 = 16384;

/// The hash slot of a key, as the engines compute it: CRC16/XMODEM of the part between the first
/// `{` and the next `}` if that is not empty, else of the whole key.
#[must_use]
pub fn slot_of(key: &str) -> u16 {
    crc16(hash_tag(key).as_bytes()) % SLOTS
}

fn hash_tag(key: &str) -> &str {
    key.split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty())
        .unwrap_or(key)
}

// Bit by bit: a slot is computed once per key at the start, so a table would only be more to read.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_agree_with_the_engine() {
        // The vector of the cluster specification, then answers of CLUSTER KEYSLOT.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12182);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        assert_eq!(slot_of("foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of("foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }
}
