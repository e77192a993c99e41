//! The members of a room, on the real binary: told to each other, asked by them, over nodes, with connections that are lost and nodes
//! that die.

use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::{SocketIo, request};
use serde_json::{Value, json};
use servers::Redis;
use std::sync::LazyLock;

const WHO: &str = "sockeye:presence";

/// `/`: rooms have presence, but for those whose names begin with `off-`. A member that was lost comes back within two seconds.
fn config(more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_keys = [{:?}]\n[auth]\nsecret = \"{SECRET}\"\nrequired = false\n\
         [namespaces.\"/\"]\nclient_joins = true\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n\
         [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
         [namespaces.\"/\".presence]\nenabled = true\nrooms = [\"den*\", \"hall\"]\ngrace = \"2s\"\nnames_max = 20\n{more}\n",
        KEY.1
    )
}

/// A key of the server API that allows everything, and its entry.
static KEY: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("ops", &[]).expect("a key"));

/// `GET /v1/presence`.
fn members(node: &Gateway, query: &str) -> (u16, Value) {
    let headers = format!("Authorization: Bearer {}\r\n", KEY.0);
    let path = format!("/v1/presence?{query}");
    let response = request(node.admin, "GET", &path, &headers, "");
    let body = serde_json::from_str(&response.body).unwrap_or_default();
    (response.status, body)
}

/// A socket of a user, in a room.
fn comes(node: &Gateway, user: &str, room: &str) -> SocketIo {
    let auth = match user {
        "" => json!({}),
        user => json!({"token": token(user)}),
    };
    let mut client = SocketIo::websocket(node.addr, "/", auth);
    assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    client
}

fn ask(client: &mut SocketIo, room: &str) -> Value {
    ask_raw(client, &json!({"room": room}))
}

fn ask_raw(client: &mut SocketIo, question: &Value) -> Value {
    client.ask(WHO, std::slice::from_ref(question)).remove(0)
}

/// Users that a client finds in a room.
fn users(client: &mut SocketIo, room: &str) -> Vec<String> {
    let answer = ask(client, room);
    // Where there are too many, nobody is named.
    let Some(members) = answer["members"].as_array() else {
        return Vec::new();
    };
    let named = members
        .iter()
        .map(|one| one["user"].as_str().unwrap_or("nobody").to_owned());
    let named: Vec<String> = named.collect();
    assert_eq!(answer["count"], named.len());
    named
}

fn sees(client: &mut SocketIo, room: &str, wanted: &[&str]) {
    let mut seen = Vec::new();
    let is_so = eventually(PATIENCE, || {
        seen = users(client, room);
        seen == wanted
    });
    assert!(is_so, "{seen:?}, not {wanted:?}");
}

/// The next word of a room that says more than its count.
fn next(client: &mut SocketIo) -> Value {
    client.next_named(WHO).args.remove(0)
}

#[test]
fn members_hear_who_comes_and_goes_and_may_ask() {
    let node = Gateway::start(&config(""));
    let mut bob = comes(&node, "bob", "den");
    assert_eq!(
        next(&mut bob),
        json!({"room": "den", "joined": [{"user": "bob"}], "left": [], "count": 1})
    );
    // Three tabs are one member, on whichever shard they are.
    let tabs = [(); 3].map(|()| comes(&node, "ann \"<b>", "den"));
    let came = next(&mut bob);
    assert_eq!(
        (&came["joined"], &came["count"]),
        (&json!([{"user": "ann \"<b>"}]), &json!(2))
    );
    let [first, second, mut last] = tabs;
    drop((first, second));
    sees(&mut bob, "den", &["ann \"<b>", "bob"]);
    assert_eq!(last.ask("leave", &[json!("den")]), [json!(["den"])]);
    // Her other tabs may come back within two seconds.
    let left = next(&mut bob);
    assert_eq!(
        (&left["left"], &left["count"]),
        (&json!([{"user": "ann \"<b>"}]), &json!(1))
    );
    // One without a token is a member by its id.
    let mut nobody = comes(&node, "", "den");
    let id = next(&mut bob)["joined"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert_eq!(id.len(), 20);
    sees(&mut nobody, "den", &["bob", "nobody"]);
    nobody.leave_namespace();
    assert_eq!(next(&mut bob)["left"], json!([{"id": id}]));
}

#[test]
fn a_question_that_cannot_be_answered_is_refused() {
    let node = Gateway::start(&config(""));
    let mut ann = comes(&node, "ann", "den");
    assert_eq!(
        ann.ask("join", &[json!("off-record")]),
        [json!(["off-record"])]
    );
    let refusals = [
        (json!({"room": "hall"}), "Not in that room"),
        (json!({"room": 7}), "Room must be a string"),
        (json!(null), "Room must be a string"),
        (json!({"room": "off-record"}), "This room has no presence"),
    ];
    for (question, error) in refusals {
        let answer = ask_raw(&mut ann, &question);
        assert_eq!(answer["error"], error, "{question}");
    }
    // Only the gateway says who is there.
    let mut bob = comes(&node, "bob", "den");
    bob.emit(WHO, &[json!({"room": "den"})]);
    let refused = bob.next_named("error").args.remove(0);
    let refused = refused.to_string();
    assert!(refused.contains("The answer needs an ack"), "{refused}");
}

#[test]
fn a_room_with_too_many_members_for_names_is_counted() {
    let node = Gateway::start(&config(""));
    let mut first = comes(&node, "user 0", "hall");
    let others: Vec<SocketIo> = (1..=20)
        .map(|n| comes(&node, &format!("user {n}"), "hall"))
        .collect();
    let counted = json!({"room": "hall", "count": 21});
    let mut answer = Value::Null;
    assert!(
        eventually(PATIENCE, || {
            answer = ask(&mut first, "hall");
            answer == counted
        }),
        "{answer}"
    );
    drop(others);
    sees(&mut first, "hall", &["user 0"]);
}

/// Two nodes of a cluster.
fn nodes(redis: &Redis) -> [Gateway; 2] {
    let cluster = format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n",
        redis.url()
    );
    [(); 2].map(|()| Gateway::start(&config(&cluster)))
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn both_nodes_know_all_members_and_those_of_a_killed_one_go() {
    let redis = Redis::start();
    let [here, mut there] = nodes(&redis);
    let mut ann = comes(&here, "ann", "den");
    let _bob = comes(&there, "bob", "den");
    let mut tab = comes(&there, "ann", "den");
    sees(&mut ann, "den", &["ann", "bob"]);
    sees(&mut tab, "den", &["ann", "bob"]);
    for node in [&here, &there] {
        let (status, body) = members(node, "room=den");
        let wanted = json!({"room": "den", "count": 2, "complete": true, "members": [{"user": "ann"}, {"user": "bob"}]});
        assert_eq!((status, body), (200, wanted));
    }
    there.kill();
    // It is taken for dead first.
    let news = loop {
        let news = next(&mut ann);
        if news["left"] != json!([]) {
            break news;
        }
    };
    assert_eq!(
        news["left"],
        json!([{"user": "bob", "lost": true}]),
        "its node was lost"
    );
    sees(&mut ann, "den", &["ann"]);
    // A user that comes back finds the others.
    let mut bob = comes(&here, "bob", "den");
    sees(&mut bob, "den", &["ann", "bob"]);
}

/// Redis goes while people come and go on both nodes: when it is there again, both nodes know all of them.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn people_who_came_and_went_while_redis_was_away_are_known_afterwards() {
    let mut redis = Redis::start();
    let [here, there] = nodes(&redis);
    let mut ann = comes(&here, "ann", "den");
    let mut bob = comes(&there, "bob", "den");
    let mut cid = comes(&there, "cid", "den");
    sees(&mut ann, "den", &["ann", "bob", "cid"]);
    redis.kill();
    cid.leave_namespace();
    let mut dot = comes(&here, "dot", "den");
    assert!(users(&mut dot, "den").contains(&"ann".to_owned()));
    redis.restart();
    sees(&mut bob, "den", &["ann", "bob", "dot"]);
    sees(&mut ann, "den", &["ann", "bob", "dot"]);
}

/// Both nodes went on to say that they knew all members, when neither heard of those who came to the other.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_list_was_said_to_be_whole_while_no_other_node_was_heard() {
    let mut redis = Redis::start();
    let [here, there] = nodes(&redis);
    let mut ann = comes(&here, "ann", "den");
    let _bob = comes(&there, "bob", "den");
    sees(&mut ann, "den", &["ann", "bob"]);
    let is_whole = |node: &Gateway, room: &str, whole: bool| {
        let query = format!("room={room}");
        eventually(PATIENCE, || members(node, &query).1["complete"] == whole)
    };
    assert!(is_whole(&here, "den", true) && is_whole(&there, "den", true));
    redis.kill();
    assert!(is_whole(&here, "den", false) && is_whole(&there, "den", false));
    // Nobody can be asked of a room that is not known here.
    assert!(is_whole(&here, "den-2", false));
    let _cid = comes(&there, "cid", "den");
    let (status, known) = members(&here, "room=den");
    assert_eq!(status, 200);
    assert_eq!(known["complete"], false, "{known}");
    redis.restart();
    sees(&mut ann, "den", &["ann", "bob", "cid"]);
    assert!(is_whole(&here, "den", true) && is_whole(&there, "den", true));
    assert!(is_whole(&here, "den-2", true));
}

/// A thousand come at once, half of them on each node, and half of them go again: all agree soon.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn many_who_come_and_go_at_once_are_counted_right() {
    let redis = Redis::start();
    let cluster = format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n",
        redis.url()
    );
    let config = config(&cluster).replace("names_max = 20", "names_max = 1000");
    let nodes = [(); 2].map(|()| Gateway::start(&config));
    let mut crowd: Vec<SocketIo> = (0..400).map(|n| comes(&nodes[n % 2], "", "den")).collect();
    let mut ann = comes(&nodes[0], "ann", "den");
    let mut bob = comes(&nodes[1], "bob", "den");
    for client in [&mut ann, &mut bob] {
        let mut seen = 0;
        let all = || {
            seen = users(client, "den").len();
            seen == 402
        };
        assert!(eventually(PATIENCE, all), "{seen}");
    }
    for client in crowd.drain(..200) {
        drop(client);
    }
    for client in [&mut ann, &mut bob] {
        let mut seen = 0;
        let half = || {
            seen = users(client, "den").len();
            seen == 202
        };
        assert!(eventually(PATIENCE, half), "{seen}");
    }
}

/// A program may ask a node that has nobody in the room, again and again, also for rooms in which nobody is.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_program_learns_from_any_node_who_is_in_a_room() {
    let redis = Redis::start();
    let [here, there] = nodes(&redis);
    let mut ann = comes(&here, "ann", "den");
    let tab = comes(&here, "ann", "den");
    let _bob = comes(&here, "bob", "den");
    sees(&mut ann, "den", &["ann", "bob"]);
    let both = json!({"room": "den", "count": 2, "complete": true, "members": [{"user": "ann"}, {"user": "bob"}]});
    for _ in 0..3 {
        assert_eq!(members(&there, "room=den"), (200, both.clone()));
    }
    assert_eq!(ann.ask("leave", &[json!("den")]), [json!(["den"])]);
    drop(tab);
    let one = json!({"room": "den", "count": 1, "complete": true, "members": [{"user": "bob"}]});
    assert!(eventually(PATIENCE, || members(&there, "room=den").1 == one));
    let none = json!({"room": "den-2", "count": 0, "complete": true, "members": []});
    assert_eq!(members(&there, "room=den-2"), (200, none));
    let statuses = [
        "room=off-record",
        "",
        "room=",
        "namespace=/x&room=den",
        "room=den&x=1",
    ]
    .map(|query| members(&there, query).0);
    assert_eq!(statuses, [404, 400, 400, 404, 400]);
}
