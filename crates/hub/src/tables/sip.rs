//! SipHash-2-4: a name's number that is the same on all nodes with the same key, and that nobody without the key can aim at.

/// The number of a name.
pub(crate) fn sip(key: [u64; 2], name: &[u8]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        take(&mut state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = name.len() as u8;
    take(&mut state, u64::from_le_bytes(last));
    state[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut state));
    state.into_iter().fold(0, |hash, word| hash ^ word)
}

fn take(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    round(state);
    state[0] ^= word;
}

fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the reference implementation: key and message are the bytes 0, 1, 2, …
    #[test]
    fn numbers_are_those_of_the_reference() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(sip(key, &bytes[..0]), 0x726f_db47_dd0e_0e31);
        assert_eq!(sip(key, &bytes[..1]), 0x74f8_39c5_93dc_67fd);
        assert_eq!(sip(key, &bytes[..15]), 0xa129_ca61_49be_45e5);
    }
}
