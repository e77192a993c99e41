//! Frames of WebTransport: any chunking of a stream gives the same frames for the hub and the same end; what the hub says comes back as it
//! was said. Input: four sizes of pieces, then the stream.
use wire::engineio::webtransport::{Goodbye, ToClient, ToHub, Violation, read_opening};

pub fn run(input: &[u8]) {
    let Some((sizes, bytes)) = input.split_first_chunk::<4>() else {
        return;
    };
    if let Ok(Some(opening)) = read_opening(bytes) {
        assert!((2..=bytes.len()).contains(&opening.len));
        let again = read_opening(&bytes[..opening.len]);
        assert_eq!(again, Ok(Some(opening)));
    }
    let (whole, end) = to_hub(bytes, &[255]);
    assert_eq!(to_hub(bytes, sizes), (whole.clone(), end));
    assert_eq!(to_hub(bytes, &[0]), (whole, end));
    let said = to_client(bytes, &[255]);
    assert_eq!(to_client(bytes, sizes), said);
    // Headers become shorter, and nothing is added to what passes.
    assert!(said.0.len() <= bytes.len());
}

fn pieces<'a>(bytes: &'a [u8], sizes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    let mut sizes = sizes.iter().cycle();
    std::iter::from_fn(move || {
        let size = usize::from(*sizes.next()?) + 1;
        let (piece, behind) = rest.split_at(rest.len().min(size));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

fn to_hub(bytes: &[u8], sizes: &[u8]) -> (Vec<u8>, Option<Violation>) {
    let (mut to, mut out) = (ToHub::default(), Vec::new());
    for piece in pieces(bytes, sizes) {
        if let Err(violation) = to.translate(piece, &mut out) {
            return (out, Some(violation));
        }
    }
    (out, None)
}

fn to_client(bytes: &[u8], sizes: &[u8]) -> (Vec<u8>, Result<Option<Goodbye>, Violation>) {
    let (mut to, mut out) = (ToClient::default(), Vec::new());
    for piece in pieces(bytes, sizes) {
        match to.translate(piece, &mut out) {
            Ok(None) => {}
            end => return (out, end),
        }
    }
    (out, Ok(None))
}
