//! Socket.IO packets: what is taken is JSON, and reads the same when written again.
use serde_json::value::RawValue;
use wire::json;
use wire::socketio::{self, ATTACHMENTS_MAX, PacketType};

pub fn run(bytes: &[u8]) {
    let text = super::text(bytes);
    let Ok(packet) = socketio::parse(text) else {
        return;
    };
    assert!(packet.attachments <= ATTACHMENTS_MAX);
    assert_eq!(packet.kind.is_binary(), packet.attachments > 0);
    assert!(packet.data.is_empty() || serde_json::from_str::<&RawValue>(packet.data).is_ok());
    let mut written = Vec::new();
    socketio::write(&mut written, &packet);
    assert_eq!(written.len(), socketio::written_len(&packet));
    let written = std::str::from_utf8(&written).expect("UTF-8 in, UTF-8 out");
    assert_eq!(socketio::parse(written), Ok(packet));

    if matches!(packet.kind, PacketType::Event | PacketType::BinaryEvent) {
        let event = socketio::event(packet.data);
        assert!(!socketio::is_reserved(&event.name) || !packet.data.contains('"'));
        let count = json::Elements::bare(event.args).count();
        assert_eq!(count + 1, json::elements(packet.data).count());
    }
    if packet.kind.is_binary() {
        let found: Result<Vec<_>, _> = socketio::placeholders(packet.data).collect();
        let mut indices: Vec<_> = found
            .expect("checked")
            .iter()
            .map(|found| found.index)
            .collect();
        assert!(indices.iter().all(|index| *index < packet.attachments));
        indices.sort_unstable();
        assert!(
            indices.windows(2).all(|pair| pair[0] != pair[1]),
            "named once each"
        );
    }
}
