//! WebSocket frames and messages: any chunking of a stream gives the same messages and end.
//! Input: masked, deflate, four sizes of pieces, then the stream.
use wire::websocket::message::Limits;

pub fn run(input: &[u8]) {
    let Some(([masked, deflate, sizes @ ..], bytes)) = input.split_first_chunk::<6>() else {
        return;
    };
    let (masked, deflate) = (masked & 1 == 1, deflate & 1 == 1);
    let limits = Limits {
        message_bytes_max: 4_096,
        fragments_max: 32,
        masked,
        deflate,
    };
    let whole = crate::receive(bytes, &[255], &limits);
    assert_eq!(crate::receive(bytes, sizes, &limits), whole);
    assert_eq!(crate::receive(bytes, &[0], &limits), whole);
}
