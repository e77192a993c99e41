//! What shards and backends say to each other of a client, in the words of each.

use crate::trace::TraceParent;
use backend::proto;
use bytes::Bytes;
use hub::{Answer, ConnectRequest, Emit, Protocol};
use std::time::Duration;

pub(super) fn as_connect(
    request: &ConnectRequest<'_>,
    context: Option<TraceParent>,
) -> proto::Connect {
    let headers = request.headers.iter().map(|(name, value)| proto::Header {
        name: name.to_owned(),
        value: Bytes::copy_from_slice(value),
    });
    proto::Connect {
        socket: request.socket.to_string(),
        namespace: request.namespace.to_owned(),
        traceparent: context.map_or_else(String::new, |context| context.to_string()),
        auth: Bytes::copy_from_slice(request.auth.as_bytes()),
        query: request.query.to_owned(),
        headers: headers.collect(),
        address: request.peer.to_string(),
        user: request
            .claims
            .map_or_else(String::new, |claims| claims.uid.clone()),
        protocol: match request.protocol {
            Protocol::SocketIo => "socketio".to_owned(),
            _ => "plain".to_owned(),
        },
        session: request.sid.to_string(),
        transport: request.transport.to_owned(),
        opening: 0,
        returned: request.returns.map(|state| proto::Returned {
            rooms: state.rooms.clone(),
            data: state.data.clone(),
        }),
    }
}

pub(super) fn as_emit<'a>(emit: &'a proto::Emit, attachments: &'a [Vec<u8>]) -> Emit<'a> {
    Emit {
        attachments,
        volatile: emit.volatile,
        ..Emit::new(&emit.event, text(&emit.args))
    }
}

pub(super) fn as_answer(answer: Answer) -> types::Answer {
    types::Answer {
        args: answer.args.into(),
        attachments: answer.attachments.into_iter().map(Bytes::from).collect(),
    }
}

/// The backend has checked it.
pub(super) fn text(args: &[u8]) -> &str {
    std::str::from_utf8(args).unwrap_or_default()
}

pub(super) fn as_vecs(attachments: &[Bytes]) -> Vec<Vec<u8>> {
    attachments.iter().map(|bytes| bytes.to_vec()).collect()
}

pub(super) fn millis(timeout_ms: u32) -> Duration {
    Duration::from_millis(u64::from(timeout_ms))
}
