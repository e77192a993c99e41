//! Buffers that the TLS connections of a shard share: what is in them is of one connection, and only while it is served.

use super::CHUNK_BYTES;
use crate::bounds::RECORD_BYTES_MAX;
use hub::tls::TlsFailure;
use std::io::IoSlice;

/// Scratch space of one thread.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Ciphertext read, behind what the connection had kept.
    pub(super) cipher: Box<[u8]>,
    /// Plaintext of the last read.
    pub(crate) plain: Vec<u8>,
    /// Ciphertext to be written.
    pub(super) out: Vec<u8>,
    /// Plaintext that lies in several slices.
    pub(super) gathered: Vec<u8>,
}

impl Buffers {
    /// Reads take up to `read_bytes`.
    pub(crate) fn new(read_bytes: usize) -> Self {
        Self {
            cipher: vec![0; read_bytes.max(1024) + RECORD_BYTES_MAX].into(),
            plain: Vec::new(),
            out: Vec::new(),
            gathered: Vec::new(),
        }
    }
}

/// Why something was not written into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    /// So many bytes are needed.
    By(usize),
    /// No size would do.
    Never,
}

/// Lets `write` write behind the end of `out`, in `room` bytes or as many as it asks for.
pub(super) fn append(
    out: &mut Vec<u8>,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Short>,
) -> Result<(), TlsFailure> {
    let start = out.len();
    loop {
        out.resize(start + room, 0);
        match write(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(Short::By(needed)) if needed > room => room = needed,
            Err(_) => {
                out.truncate(start);
                return Err(TlsFailure::Other);
            }
        }
    }
}

/// At most `len_max` bytes from `at` on: as they lie, if one slice has them, else gathered.
pub(super) fn chunk<'a>(
    slices: &'a [IoSlice<'_>],
    mut at: usize,
    len_max: usize,
    gathered: &'a mut Vec<u8>,
) -> &'a [u8] {
    debug_assert!(len_max <= CHUNK_BYTES);
    gathered.clear();
    for (n, slice) in slices.iter().enumerate() {
        if at >= slice.len() {
            at -= slice.len();
            continue;
        }
        let part = &slice[std::mem::take(&mut at)..];
        let part = &part[..part.len().min(len_max - gathered.len())];
        let is_last = n + 1 == slices.len() || part.len() == len_max;
        if gathered.is_empty() && is_last {
            return part;
        }
        gathered.extend_from_slice(part);
        if gathered.len() == len_max {
            break;
        }
    }
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_any_size_are_the_bytes_in_order() {
        let parts: [&[u8]; 4] = [b"one", b"", b"twenty-two", b"3"];
        let slices = parts.map(IoSlice::new);
        let whole = parts.concat();
        for size in 1..=whole.len() + 1 {
            let (mut at, mut seen, mut gathered) = (0, Vec::new(), Vec::new());
            while at < whole.len() {
                let chunk = chunk(&slices, at, size, &mut gathered);
                assert!(!chunk.is_empty() && chunk.len() <= size);
                at += chunk.len();
                seen.extend_from_slice(chunk);
            }
            assert_eq!(seen, whole, "by {size}");
        }
    }

    #[test]
    fn a_buffer_grows_to_what_is_asked_for_and_an_error_leaves_it_as_it_was() {
        let mut out = b"before".to_vec();
        let write = |room: &mut [u8]| match room.len() {
            0..9 => Err(Short::By(9)),
            _ => {
                room[..2].fill(b'x');
                Ok(2)
            }
        };
        append(&mut out, 3, write).expect("room for nine");
        assert_eq!(out, b"beforexx");
        assert!(append(&mut out, 3, |_| Err(Short::Never)).is_err());
        assert!(append(&mut out, 3, |_| Err(Short::By(3))).is_err());
        assert_eq!(out, b"beforexx");
    }
}
