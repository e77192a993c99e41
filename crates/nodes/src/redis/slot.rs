//! Slots of a Redis Cluster: every key and channel belongs to one of 16,384.

pub(super) const SLOTS: usize = 16_384;

/// Of the `{tag}` in a name, if there is one that is not empty, else of the whole name.
pub(super) fn slot(name: &[u8]) -> u16 {
    let open = name.iter().position(|byte| *byte == b'{');
    let tagged = open.map(|open| &name[open + 1..]);
    let tag = tagged.and_then(|rest| {
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(name)) % SLOTS as u16
}

/// CRC-16/XMODEM, as the cluster specification asks for.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` of Redis 7.0 says.
    #[test]
    fn slots_are_those_of_redis() {
        for (name, wanted) in [
            ("123456789", 12_739),
            ("a", 15_495),
            ("{a}b", 15_495),
            ("x{a}{b}", 15_495),
            ("{}a", slot(b"{}a")),
        ] {
            assert_eq!(slot(name.as_bytes()), wanted, "{name}");
        }
        assert_ne!(slot(b"{}a"), slot(b"{}b"));
    }
}
