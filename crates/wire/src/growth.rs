//! How a buffer grows that holds what a peer sends bit by bit: with the bytes received, never with bytes announced, in a few
//! fixed sizes.
//!
//! An allocator keeps some memory for each size it is asked for. A buffer that grows from whatever length came first asks for
//! many sizes, and its owners leave a large heap behind: few sizes keep it small.

use crate::bounds::FOURFOLD_BYTES_MAX;

/// The smallest buffer, in bytes; the next sizes are each four times the last.
const LEAST_BYTES: usize = 64;

/// Appends `bytes` to `buf`, which never needs to hold more than `most`.
pub fn extend(buf: &mut Vec<u8>, bytes: &[u8], most: usize) {
    make_room(buf, buf.len() + bytes.len(), most);
    buf.extend_from_slice(bytes);
}

/// Sees to it that `buf` can hold `wanted` bytes in all; `most` bounds what is added beyond that.
pub(crate) fn make_room(buf: &mut Vec<u8>, wanted: usize, most: usize) {
    if wanted <= buf.capacity() {
        return;
    }
    let mut size = LEAST_BYTES;
    while size < wanted && size < FOURFOLD_BYTES_MAX {
        size *= 4;
    }
    if size < wanted {
        size = wanted.next_multiple_of(FOURFOLD_BYTES_MAX);
    }
    buf.reserve_exact(size.min(most).max(wanted) - buf.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_in_few_sizes() {
        let (mut buf, mut sizes) = (Vec::new(), Vec::new());
        for _ in 0..1_000_000 {
            extend(&mut buf, b"abc", 3_000_000);
            if sizes.last() != Some(&buf.capacity()) {
                sizes.push(buf.capacity());
            }
        }
        assert_eq!(buf.len(), 3_000_000);
        assert_eq!(
            sizes,
            [
                64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 3_000_000
            ]
        );
    }

    #[test]
    fn what_is_allowed_bounds_the_size_and_what_came_has_room() {
        for (len, most, size) in [(10, 50, 50), (10, 5, 10), (300, 1_000, 1_000)] {
            let mut buf = Vec::new();
            extend(&mut buf, &vec![0; len], most);
            assert_eq!(buf.capacity(), size, "{len} bytes of {most}");
        }
        let mut buf = Vec::new();
        make_room(&mut buf, 20_000_000, 64_000_000);
        assert_eq!(buf.capacity(), 2 * FOURFOLD_BYTES_MAX);
        extend(&mut buf, &vec![0; 2 * FOURFOLD_BYTES_MAX + 1], usize::MAX);
        assert_eq!(buf.capacity(), 3 * FOURFOLD_BYTES_MAX);
    }
}
