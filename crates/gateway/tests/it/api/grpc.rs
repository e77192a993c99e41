//! The same calls by gRPC, with a client that is not the gateway's own code.

use super::{KEY, config, ids, key, members};
use crate::harness::Gateway;
use control::api::proto::{self, emit_response::What};
use serde_json::Value;
use std::net::SocketAddr;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use types::Target;

pub struct Client {
    pub addr: SocketAddr,
    key: String,
}

impl Client {
    pub fn of(gateway: &Gateway, key: &str) -> Client {
        let log = gateway.log();
        let line = log.iter().find(|line| line.contains("\"listening\""));
        let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
        Client {
            addr: line["workers"]
                .as_str()
                .and_then(|addr| addr.parse().ok())
                .expect("an address"),
            key: key.to_owned(),
        }
    }

    /// `more`: metadata.
    fn call_with<Q, A>(
        &self,
        method: &str,
        message: Q,
        more: &[(&'static str, &str)],
    ) -> Result<A, Status>
    where
        Q: prost::Message + Default + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let channel =
                Endpoint::from_shared(format!("http://{}", self.addr)).expect("an address");
            let channel = channel.connect().await.expect("a connection");
            let mut grpc = tonic::client::Grpc::new(channel);
            grpc.ready().await.expect("ready");
            let mut request = Request::new(message);
            let key = format!("Bearer {}", self.key).parse().expect("ASCII");
            request.metadata_mut().insert("authorization", key);
            for (name, value) in more {
                request
                    .metadata_mut()
                    .insert(*name, value.parse().expect("ASCII"));
            }
            let path =
                PathAndQuery::try_from(format!("/sockeye.api.v1.Api/{method}")).expect("a path");
            let codec = tonic_prost::ProstCodec::<Q, A>::default();
            grpc.unary(request, path, codec)
                .await
                .map(tonic::Response::into_inner)
        })
    }

    pub fn call<Q, A>(&self, method: &str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.call_with(method, message, &[])
    }
}

fn gateway() -> Gateway {
    Gateway::start(&config("[workers]\nlisten = \"127.0.0.1:0\""))
}

fn of_room(room: &str) -> Option<Target> {
    // Without a namespace it is `/`.
    Some(Target::room("", room))
}

#[test]
fn every_call_works_by_grpc_too() {
    let gateway = gateway();
    let client = Client::of(&gateway, &KEY.0);
    let mut clients = members(&gateway, "room", 4);
    let emit = |event: &str, ack_timeout_ms| proto::EmitRequest {
        to: of_room("room"),
        event: event.to_owned(),
        args: b"1,{\"a\":null}".as_slice().to_vec(),
        ack_timeout_ms,
        ..proto::EmitRequest::default()
    };
    let done: proto::EmitResponse = client.call("Emit", emit("news", 0)).expect("accepted");
    assert_eq!(
        done.what,
        Some(What::Accepted(proto::Accepted { everywhere: true }))
    );
    let asked: proto::EmitResponse = std::thread::scope(|scope| {
        let asked = scope.spawn(|| client.call("Emit", emit("q", 20_000)).expect("answers"));
        for one in &mut clients {
            assert_eq!(one.next_named("news").args.len(), 2);
            let question = one.next_named("q");
            one.answer(question.ack.expect("an ack is wanted"), &question.args);
        }
        asked.join().expect("an answer")
    });
    let Some(What::Collected(collected)) = asked.what else {
        panic!("{asked:?}")
    };
    assert_eq!((collected.acked, collected.complete), (4, true));
    assert!(
        collected
            .answers
            .iter()
            .all(|answer| answer.args == b"1,{\"a\":null}".as_slice()),
        "{collected:?}"
    );

    let (of, rooms) = (of_room("room"), vec!["x".to_owned()]);
    let joined: proto::Accepted = client
        .call(
            "Join",
            proto::JoinRequest {
                of: of.clone(),
                rooms: rooms.clone(),
            },
        )
        .expect("accepted");
    assert!(joined.everywhere);
    let count = |room: &str| -> u64 {
        let room = room.to_owned();
        let asked = proto::CountRoomRequest {
            room,
            ..proto::CountRoomRequest::default()
        };
        client
            .call::<_, proto::Count>("CountRoom", asked)
            .expect("a count")
            .sockets
    };
    assert_eq!(count("x"), 4);
    let list: proto::Rooms = client
        .call(
            "ListRooms",
            proto::ListRoomsRequest {
                limit: 1,
                ..Default::default()
            },
        )
        .expect("rooms");
    assert_eq!(
        (list.rooms[0].room.as_str(), list.next.as_str()),
        ("room", "room")
    );
    let _: proto::Accepted = client
        .call(
            "Leave",
            proto::LeaveRequest {
                of: of.clone(),
                rooms,
            },
        )
        .expect("accepted");
    assert_eq!(count("x"), 0);
    let list: proto::Sockets = client
        .call(
            "ListSockets",
            proto::ListSocketsRequest {
                of: Some(Target::all_of("/")),
                ..Default::default()
            },
        )
        .expect("sockets");
    let seen: Vec<String> = list.sockets.into_iter().map(|socket| socket.id).collect();
    assert_eq!(seen, ids(&clients));
    let _: proto::Accepted = client
        .call("Disconnect", proto::DisconnectRequest { of, close: true })
        .expect("accepted");
    clients.iter_mut().for_each(|one| drop(one.until_closed()));
}

#[test]
fn a_failed_grpc_call_says_why() {
    let gateway = Gateway::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_rate = \"9/15m\"\napi_keys = [{:?}, {:?}]\n[workers]\nlisten = \"127.0.0.1:0\"\n",
        KEY.1, VIEWER.1
    ));
    let fault = |key: &str, emit: proto::EmitRequest| {
        let client = Client::of(&gateway, key);
        let failed = client
            .call::<_, proto::EmitResponse>("Emit", emit)
            .expect_err("a failure");
        (failed.code(), failed.message().to_owned())
    };
    let emit = |event: &str, args: &str| proto::EmitRequest {
        to: of_room("room"),
        event: event.to_owned(),
        args: args.as_bytes().to_vec(),
        ..proto::EmitRequest::default()
    };
    let nobody = proto::EmitRequest {
        to: None,
        ..emit("a", "")
    };
    for (key, emit, code, words) in [
        (
            "wrong",
            emit("a", ""),
            Code::Unauthenticated,
            "authorization: Bearer",
        ),
        (
            VIEWER.0.as_str(),
            emit("a", ""),
            Code::PermissionDenied,
            "\"emit\"",
        ),
        (
            KEY.0.as_str(),
            nobody,
            Code::InvalidArgument,
            "nobody is meant",
        ),
        (
            KEY.0.as_str(),
            emit("connect", ""),
            Code::InvalidArgument,
            "event: \"connect\" is reserved",
        ),
        (
            KEY.0.as_str(),
            emit("a", "1,"),
            Code::InvalidArgument,
            "args: ",
        ),
        (
            KEY.0.as_str(),
            emit("a", "1]}"),
            Code::InvalidArgument,
            "args: ",
        ),
    ] {
        let (found, message) = fault(key, emit);
        assert!(
            found == code && message.contains(words),
            "{found:?} {message}"
        );
    }
    let client = Client::of(&gateway, &KEY.0);
    let once = |event: &str| {
        client.call_with::<_, proto::EmitResponse>(
            "Emit",
            emit(event, ""),
            &[("idempotency-key", "k")],
        )
    };
    assert!(once("a").is_ok() && once("a").is_ok());
    assert_eq!(
        once("b").expect_err("another").code(),
        Code::FailedPrecondition
    );
    let unknown = client.call::<_, proto::EmitResponse>("None", emit("a", ""));
    assert_eq!(unknown.expect_err("no method").code(), Code::Unimplemented);
    let over = (0..9).find_map(|_| {
        client
            .call::<_, proto::EmitResponse>("Emit", emit("a", ""))
            .err()
    });
    assert_eq!(over.expect("the rate ends").code(), Code::ResourceExhausted);
    let problems =
        |kind: &str| gateway.metric(&format!("sockeye_api_problems_total{{problem=\"{kind}\"}}"));
    let calls = |outcome: &str| {
        let labels = format!("call=\"emit\",door=\"grpc\",outcome=\"{outcome}\"");
        gateway.metric(&format!("sockeye_api_calls_total{{{labels}}}"))
    };
    assert!(calls("done") >= 2.0 && calls("refused") >= 8.0);
    assert_eq!(calls("failed"), 0.0);
    let timed = "sockeye_api_call_duration_seconds_count{call=\"emit\"}";
    assert_eq!(gateway.metric(timed), calls("done") + calls("refused"));
    assert_eq!(
        (problems("unauthorized"), problems("forbidden")),
        (1.0, 1.0)
    );
    assert_eq!(problems("invalid-request"), 4.0);
    assert_eq!(problems("idempotency-key-reused"), 1.0);
    assert!(problems("too-many-requests") >= 1.0);
}

static VIEWER: std::sync::LazyLock<(String, String)> =
    std::sync::LazyLock::new(|| key("viewer", &["read"]));
