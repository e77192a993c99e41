//! Chunked bodies: any chunking of the stream gives the same body and the same end.
//! Input: four sizes of pieces, then the stream.
use wire::http::{ChunkError, Chunked};

const BYTES_MAX: usize = 4_096;

/// Body, bytes left behind it, and how it ended.
type Decoded = (Vec<u8>, Vec<u8>, Result<bool, ChunkError>);

fn decode(bytes: &[u8], sizes: &[u8]) -> Decoded {
    let (mut chunked, mut buf, mut rest) = (Chunked::default(), Vec::new(), bytes);
    for size in sizes.iter().cycle() {
        let (piece, behind) = rest.split_at(rest.len().min(usize::from(*size) + 1));
        rest = behind;
        buf.extend_from_slice(piece);
        match chunked.decode(&buf, BYTES_MAX) {
            Ok(used) => drop(buf.drain(..used)),
            Err(error) => return (chunked.body, Vec::new(), Err(error)),
        }
        assert!(chunked.body.len() <= BYTES_MAX);
        if rest.is_empty() {
            break;
        }
    }
    let done = chunked.is_done();
    (chunked.body, buf, Ok(done))
}

pub fn run(input: &[u8]) {
    let Some((sizes, bytes)) = input.split_first_chunk::<4>() else {
        return;
    };
    let whole = decode(bytes, &[255]);
    assert_eq!(decode(bytes, sizes), whole);
    assert_eq!(decode(bytes, &[0]), whole);
}
