//! Messages of other Socket.IO servers, in every dialect: what is taken can be written, and is read the same again. The first byte
//! chooses the channel.
use compat::names::Names;
use compat::verb::Letter;
use compat::{classic, clustered, python};

pub fn run(bytes: &[u8]) {
    let Some((choice, body)) = bytes.split_first() else {
        return;
    };
    let names = Names::new("socket.io");
    let namespace = "/lab";
    let channel = match choice % 4 {
        0 => names.main(namespace),
        1 => names.requests(namespace),
        2 => names.responses(namespace),
        _ => names.room(namespace, "r1"),
    };
    let channel = names.read(&channel).expect("a channel of ours");
    if let Ok(letter) = classic::decode(channel, body) {
        again(&names, &letter);
    }
    if let Ok(letter) = clustered::decode(namespace, body) {
        let _ = clustered::encode_sharded(&names, &letter);
        again(&names, &letter);
    }
    if let Ok(letter) = python::decode(body) {
        again(&names, &letter);
    }
    let fields = [
        (&b"nsp"[..], namespace.as_bytes()),
        (b"type", b"3"),
        (b"data", body),
    ];
    if let Ok(letter) = clustered::decode_entry(fields.into_iter()) {
        again(&names, &letter);
    }
}

/// Attachments stand for as many places as before, in all dialects.
fn again(names: &Names, letter: &Letter) {
    let _ = clustered::encode_streams(names, letter);
    let _ = python::encode(letter);
    let Some(publish) = classic::encode(names, letter) else {
        return;
    };
    let Ok(channel) = names.read(&publish.channel) else {
        return;
    };
    // A namespace with `#` in its name is none in the name of a channel; numbers of rooms are written twice.
    if channel.namespace() == letter.namespace
        && let Ok(read) = classic::decode(channel, &publish.body)
    {
        assert_eq!(read.namespace, letter.namespace);
    }
}
