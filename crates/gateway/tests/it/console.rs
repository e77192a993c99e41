//! What a node shows of itself: sessions, rooms, ends, figures, settings and actions; and the login of the console.

use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::Response;
use ::client::full::{Encoding, Plain, Polling, SocketIo, request};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::LazyLock;

fn key(name: &str, allowed: &[&str]) -> (String, String) {
    let allowed: Vec<String> = allowed.iter().map(|word| (*word).to_owned()).collect();
    identity::keys::generate(name, &allowed).expect("a key")
}

/// A key that allows everything, and one for looking only.
static OPS: LazyLock<(String, String)> = LazyLock::new(|| key("ops", &[]));
static VIEWER: LazyLock<(String, String)> = LazyLock::new(|| key("viewer", &["read"]));

fn config(more: &str) -> String {
    let keys = [&OPS.1, &VIEWER.1];
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_keys = {keys:?}\n[auth]\nsecret = \"{SECRET}\"\nrequired = false\n\
         [namespaces.\"/\"]\nclient_joins = true\n[namespaces.\"/lab\"]\n{more}\n"
    )
}

/// A socket of a user, in rooms.
fn comes(node: &Gateway, user: &str, rooms: &[&str]) -> SocketIo {
    let mut client = SocketIo::websocket(node.addr, "/", json!({"token": token(user)}));
    for room in rooms {
        assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    }
    client
}

fn asked(node: &Gateway, key: &str, path: &str) -> (u16, Value) {
    let headers = format!("Authorization: Bearer {key}\r\n");
    let answer = request(node.admin, "GET", path, &headers, "");
    let body = serde_json::from_str(&answer.body).unwrap_or_default();
    (answer.status, body)
}

fn ask(node: &Gateway, path: &str) -> Value {
    let (status, body) = asked(node, &OPS.0, path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Ids of the sockets that a question finds, and how many sessions fit it.
fn found(node: &Gateway, query: &str) -> (Vec<String>, u64) {
    let answer = ask(node, &format!("/v1/node/sessions?{query}"));
    assert_eq!(answer["complete"], true);
    let sessions = answer["sessions"].as_array().expect("sessions").iter();
    let sockets = sessions.flat_map(|session| session["sockets"].as_array().expect("sockets"));
    let ids = sockets.map(|socket| socket["id"].as_str().expect("an id").to_owned());
    let mut ids: Vec<String> = ids.collect();
    ids.sort();
    (ids, answer["matched"].as_u64().expect("a number"))
}

#[test]
fn a_session_is_found_by_all_that_is_known_of_it() {
    let node = Gateway::start(&config(""));
    let ada = comes(&node, "ada", &["den", "<b>hall\"</b>"]);
    let tab = comes(&node, "ada", &["den"]);
    let bob = comes(&node, "<script>alert(1)</script>", &["den"]);
    let lab = SocketIo::polling(node.addr, "/lab", json!({}));
    let plain = Plain::connect(node.addr, Encoding::Json);
    let sorted = |clients: &[&SocketIo]| {
        let mut ids: Vec<String> = clients.iter().map(|client| client.id.clone()).collect();
        ids.sort();
        (ids, clients.len() as u64)
    };
    assert_eq!(found(&node, "").1, 5);
    assert_eq!(found(&node, "user=ada"), sorted(&[&ada, &tab]));
    assert_eq!(found(&node, "room=den"), sorted(&[&ada, &tab, &bob]));
    assert_eq!(found(&node, "room=den&user=nobody"), (Vec::new(), 0));
    assert_eq!(
        found(&node, "user=%3Cscript%3Ealert(1)%3C/script%3E"),
        sorted(&[&bob])
    );
    assert_eq!(found(&node, "namespace=/lab"), sorted(&[&lab]));
    assert_eq!(found(&node, &format!("id={}", tab.id)), sorted(&[&tab]));
    assert_eq!(found(&node, "address=127.0.0.1").1, 5);
    assert_eq!(found(&node, "address=10.0.0.1").1, 0);
    // What is left out is counted.
    let (shown, all) = found(&node, "room=den&limit=2");
    assert_eq!((shown.len(), all), (2, 3));

    let answer = ask(&node, &format!("/v1/node/sessions?id={}", ada.id));
    let session = &answer["sessions"][0];
    assert_eq!(session["protocol"], "socket.io");
    assert_eq!(
        (&session["engineio"], &session["transport"]),
        (&json!(4), &json!("websocket"))
    );
    assert_eq!(
        (&session["waiting_bytes"], &session["silent_ms"]),
        (&json!(0), &json!(null))
    );
    let socket = &session["sockets"][0];
    assert_eq!(
        (&socket["user"], &socket["rooms"], &socket["room_count"]),
        (&json!("ada"), &json!(["den", "<b>hall\"</b>"]), &json!(2))
    );
    assert!(socket["expires"].as_u64() > Some(1_700_000_000), "{socket}");
    // The id of a session is the secret by which its client polls: it is cut. Who knows it finds the session.
    let shown = session["id"].as_str().expect("an id");
    assert_eq!(shown.chars().count(), 9, "{shown}");
    let polling = Polling::connect(node.addr, "");
    let sid = polling.open["sid"].as_str().expect("an id");
    let answer = ask(&node, &format!("/v1/node/sessions?id={}", sid));
    assert_eq!(answer["matched"], 1);
    assert!(!answer.to_string().contains(sid));
    drop(plain);
}

#[test]
fn questions_that_cannot_be_used_are_refused_with_their_field() {
    let node = Gateway::start(&config(""));
    for (path, field) in [
        ("/v1/node/sessions?id=short", "id"),
        ("/v1/node/sessions?address=localhost", "address"),
        ("/v1/node/sessions?limit=0", "limit"),
        ("/v1/node/sessions?limit=201", "limit"),
        ("/v1/node/sessions?usr=ada", "usr"),
        ("/v1/node/rooms?limit=x", "limit"),
        ("/v1/node/ends?limit=1001", "limit"),
        ("/v1/node/overview?after=-1", "after"),
        ("/v1/node/audit?limit=1&limit=2", "limit"),
        ("/v1/nodes/links?limit=1", "limit"),
        ("/v1/node/rooms?order=x", "order"),
    ] {
        let (status, problem) = asked(&node, &OPS.0, path);
        assert_eq!((status, &problem["field"]), (400, &json!(field)), "{path}");
    }
    for (path, viewer) in [
        ("/v1/node/overview", 200),
        ("/v1/node/sessions", 200),
        ("/v1/node/rooms", 200),
        ("/v1/node/ends", 200),
        ("/v1/node/backends", 200),
        ("/v1/nodes/links", 200),
        ("/v1/node/config", 403),
        ("/v1/node/audit", 403),
    ] {
        assert_eq!(asked(&node, &VIEWER.0, path).0, viewer, "{path}");
        assert_eq!(asked(&node, "wrong", path).0, 401, "{path}");
    }
}

#[test]
fn rooms_of_both_shards_are_one_list_with_the_largest_first() {
    let node = Gateway::start(&config(""));
    let clients: Vec<SocketIo> = (0..12)
        .map(|n| {
            let own = format!("own-{n}");
            let mut rooms = vec!["all", &own];
            rooms.extend((n < 5).then_some("five"));
            comes(&node, "ada", &rooms)
        })
        .collect();
    let rooms = |query: &str| {
        let answer = ask(&node, &format!("/v1/node/rooms?{query}"));
        let rooms = answer["rooms"].as_array().expect("rooms").iter();
        let rooms = rooms.map(|room| {
            let name = room["room"].as_str().expect("a name");
            format!("{name} {}", room["members"])
        });
        (rooms.collect::<Vec<_>>(), answer["more"] == json!(true))
    };
    let (first, more) = rooms("limit=3");
    assert_eq!(
        (&first[..2], more),
        (&["all 12", "five 5"].map(str::to_owned)[..], true)
    );
    assert_eq!(rooms("contains=iv"), (vec!["five 5".to_owned()], false));
    assert_eq!(rooms("contains=own-").0.len(), 12);
    assert_eq!(rooms("namespace=/lab"), (Vec::new(), false));
    // A small room with much traffic is before a large one with little.
    for n in 0..330 {
        let room = if n % 11 == 0 { "all" } else { "five" };
        let body = json!({"event": "news", "rooms": [room]}).to_string();
        let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
        let answer = request(node.admin, "POST", "/v1/emit", &headers, &body);
        assert!(answer.status < 300, "{}", answer.body);
    }
    let busy = ask(&node, "/v1/node/rooms?order=busiest");
    assert_eq!(
        (&busy["rooms"][0]["room"], &busy["rooms"][0]["members"]),
        (&json!("five"), &json!(5))
    );
    let first = &busy["rooms"][0];
    let [events, deliveries] =
        ["events_per_second", "deliveries_per_second"].map(|name| first[name].as_f64());
    assert!(events > Some(1.0) && deliveries > events, "{busy}");
    assert_eq!(rooms("order=busiest&contains=own-").0.len(), 0);
    drop(clients);
    assert!(eventually(PATIENCE, || rooms("").0.is_empty()));
}

/// What a command prints.
fn shown_by(node: &Gateway, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(args).env("SOCKEYE_API_KEY", &OPS.0);
    command.args(["--admin", &node.admin.to_string()]);
    let output = command.output().expect("sockeye runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn emit(node: &Gateway, room: &str, text: &str) {
    let body = json!({"event": "news", "args": [text], "rooms": [room]}).to_string();
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let answer = request(node.admin, "POST", "/v1/emit", &headers, &body);
    assert!(answer.status < 300, "{}", answer.body);
}

#[test]
fn a_room_is_slow_while_something_waits_for_its_members() {
    let node = Gateway::start(&config(""));
    let quick: Vec<SocketIo> = (0..8).map(|_| comes(&node, "ada", &["all"])).collect();
    assert_eq!(
        ask(&node, "/v1/node/rooms?order=slowest")["rooms"],
        json!([])
    );
    // They are in rooms, and ask for nothing more.
    let mut slow: Vec<SocketIo> = (0..3)
        .map(|n| {
            let mut client = SocketIo::polling(node.addr, "/", json!({}));
            for room in ["den", if n == 0 { "first" } else { "others" }] {
                assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
            }
            client
        })
        .collect();
    for _ in 0..20 {
        emit(&node, "den", &"x".repeat(1_000));
        emit(&node, "all", &"x".repeat(1_000));
    }
    let rooms = |query: &str| {
        let answer = ask(&node, &format!("/v1/node/rooms?order=slowest{query}"));
        let rooms = answer["rooms"].as_array().expect("rooms").clone();
        let of = |room: &Value| {
            let behind = room["members_behind"].as_u64().expect("members");
            let each = room["waiting_bytes"].as_u64().expect("bytes") / behind.max(1);
            assert!((20_000..40_000).contains(&each), "{room}");
            (room["room"].as_str().expect("a name").to_owned(), behind)
        };
        rooms.iter().map(of).collect::<Vec<_>>()
    };
    let three = [("den", 3), ("others", 2), ("first", 1)];
    let three = three.map(|(room, behind)| (room.to_owned(), behind));
    assert!(eventually(PATIENCE, || {
        let first = &ask(&node, "/v1/node/rooms?order=slowest")["rooms"][0];
        first["waiting_bytes"].as_u64() >= Some(60_000)
    }));
    assert_eq!(rooms(""), three);
    assert_eq!(rooms("&limit=1"), three[..1]);
    assert_eq!(rooms("&contains=ther"), three[1..2]);
    assert_eq!(rooms("&namespace=/lab"), []);
    let args = ["rooms", "--first", "slowest", "--local", "--limit", "2"];
    let shown = shown_by(&node, &args);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].ends_with("BEHIND       WAITING  ROOM"), "{shown}");
    assert!(lines[1].ends_with("  den") && lines.len() == 3, "{shown}");
    // Each takes what waits.
    for client in &mut slow {
        for _ in 0..20 {
            client.expect("news");
        }
    }
    assert!(eventually(PATIENCE, || {
        ask(&node, "/v1/node/rooms?order=slowest")["rooms"] == json!([])
    }));
    let (status, refused) = asked(&node, &OPS.0, "/v1/node/rooms?order=slow");
    assert_eq!(status, 400, "{refused}");
    drop(quick);
}

#[test]
fn the_end_of_a_session_is_told_with_its_reason() {
    let node = Gateway::start(&config(
        "[socketio]\nping_interval = \"300ms\"\nping_timeout = \"300ms\"",
    ));
    let ends = || ask(&node, "/v1/node/ends?limit=10")["ends"].clone();
    assert_eq!(ends(), json!([]));
    let mut ada = comes(&node, "ada", &["den"]);
    // It says goodbye to its namespace first, as stock clients do.
    ada.leave_namespace();
    drop(ada);
    let is_told = |reason: &str, user: &str| {
        let mut last = Value::Null;
        let told = eventually(PATIENCE, || {
            last = ends()[0].clone();
            last["reason"] == reason && last["user"] == user
        });
        assert!(told, "{reason} of {user}: {last}");
        last
    };
    let end = is_told("transport_close", "ada");
    assert_eq!(
        (&end["transport"], &end["namespace"], &end["address"]),
        (&json!("websocket"), &json!("/"), &json!("127.0.0.1"))
    );
    // A client that reads nothing more answers no ping.
    let silent = comes(&node, "bob", &[]);
    let end = is_told("ping_timeout", "bob");
    assert!(end["silent_ms"].as_u64() >= Some(250), "{end}");
    assert_eq!(end["socket"], json!(silent.id));
    // One that is put out by an operator.
    let carol = comes(&node, "carol", &[]);
    let body = json!({"users": ["carol"], "close": true}).to_string();
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let answer = request(node.admin, "POST", "/v1/disconnect", &headers, &body);
    assert_eq!(answer.status, 202, "{}", answer.body);
    is_told("server_close", "carol");
    drop((silent, carol));
    let actions = ask(&node, "/v1/node/audit")["actions"].clone();
    let action = &actions[0];
    assert_eq!(
        (
            &action["key"],
            &action["what"],
            &action["of"],
            &action["outcome"]
        ),
        (
            &json!("ops"),
            &json!("disconnect"),
            &json!("users carol"),
            &json!("done")
        )
    );
}

#[test]
fn a_shard_remembers_its_last_thousand_ends() {
    let node = Gateway::start(&config("").replace("shards = 2", "shards = 1"));
    for _ in 0..1_010 {
        let polling = Polling::connect(node.addr, "");
        polling.post("1");
    }
    let told = eventually(PATIENCE, || {
        let ends = ask(&node, "/v1/node/ends?limit=1000")["ends"].clone();
        ends.as_array().map_or(0, Vec::len) == 1_000
    });
    assert!(told);
    let memory = ask(&node, "/debug/memory")["total"]["ends"].clone();
    let memory = memory.as_u64().expect("bytes");
    assert!((50_000..400_000).contains(&memory), "{memory}");
}

#[test]
fn the_last_hour_is_shown_by_the_second_and_in_the_terminal() {
    let node = Gateway::start(&config(""));
    let clients: Vec<SocketIo> = (0..3).map(|_| comes(&node, "ada", &["den"])).collect();
    let mut overview = Value::Null;
    let shows = eventually(PATIENCE, || {
        overview = ask(&node, "/v1/node/overview?limit=5");
        let last = overview["points"]
            .as_array()
            .and_then(|points| points.last());
        last.is_some_and(|last| last["sessions"] == 3)
    });
    assert!(shows, "{overview}");
    assert_eq!(overview["health"]["ok"], true, "{overview}");
    assert_eq!(overview["node"]["state"], "ready");
    let points = overview["points"].as_array().expect("points");
    let last = points.last().expect("a point");
    assert!(last["memory_bytes"].as_u64() > Some(1_000_000));
    let later = format!("/v1/node/overview?after={}", last["t"]);
    assert!(eventually(PATIENCE, || {
        let newer = ask(&node, &later)["points"].clone();
        let newer = newer.as_array().expect("points");
        newer
            .iter()
            .all(|point| point["t"].as_u64() > last["t"].as_u64())
            && !newer.is_empty()
    }));
    let run = |args: &[&str]| shown_by(&node, args);
    let top = run(&["top", "--once"]);
    assert!(top.contains("All is well."), "{top}");
    let top: Value = serde_json::from_str(&run(&["top", "--once", "--json"])).expect("JSON");
    assert_eq!(top["point"]["sessions"], 3);
    let sessions = run(&["sessions", "--user", "ada"]);
    assert_eq!(sessions.matches("websocket").count(), 3, "{sessions}");
    drop(clients);
    assert!(eventually(PATIENCE, || {
        run(&["sessions", "--ended"]).matches("transport_").count() == 3
    }));
}

#[test]
fn settings_are_shown_with_their_source_and_what_a_reload_would_change() {
    let node = Gateway::start(&config(""));
    let shown = ask(&node, "/v1/node/config");
    let setting = |key: &str| {
        let settings = shown["settings"].as_array().expect("settings").iter();
        let found = settings.clone().find(|setting| setting["key"] == key);
        found.unwrap_or_else(|| panic!("{key}: {shown}")).clone()
    };
    assert_eq!(setting("server.shards")["value"], 2);
    assert!(!shown.to_string().contains(SECRET), "a secret is shown");
    assert_eq!(setting("log.level")["source"], "default");
    assert_eq!(shown["reload"], json!({"live": [], "restart": []}));
}

fn cookie_of(answer: &Response) -> String {
    let header = answer.header("set-cookie").expect("a cookie");
    header.split(';').next().expect("a pair").to_owned()
}

#[test]
fn a_login_is_good_for_the_page_of_the_console_alone() {
    let node = Gateway::start(&config(""));
    let json_type = "Content-Type: application/json\r\n";
    let login = |key: &str, headers: &str| {
        let (body, headers) = (
            json!({"key": key}).to_string(),
            format!("{json_type}{headers}"),
        );
        request(node.admin, "POST", "/console/login", &headers, &body)
    };
    for wrong in ["", "wrong", &OPS.0[1..]] {
        let answer = login(wrong, "");
        assert_eq!(answer.status, 401, "{wrong}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(
        request(node.admin, "POST", "/console/login", "", "[").status,
        400
    );
    assert_eq!(login(&OPS.0, "Sec-Fetch-Site: cross-site\r\n").status, 403);
    // A form of another page cannot send JSON, and its browser says where it is from.
    let form = "Content-Type: text/plain\r\n";
    let body = json!({"key": OPS.0}).to_string();
    assert_eq!(
        request(node.admin, "POST", "/console/login", form, &body).status,
        400
    );
    assert_eq!(login(&OPS.0, "Origin: http://evil.example\r\n").status, 403);
    let big = "x".repeat(10_000);
    assert_eq!(login(&big, "").status, 413);

    let answer = login(&OPS.0, "Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(answer.status, 200);
    let told: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(
        (&told["name"], &told["scopes"]),
        (&json!("ops"), &json!([]))
    );
    let set = answer.header("set-cookie").expect("a cookie");
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(word), "{set}");
    }
    let cookie = format!("Cookie: {}\r\n", cookie_of(&answer));
    let csrf = format!(
        "X-Sockeye-CSRF: {}\r\n",
        told["csrf"].as_str().expect("a token")
    );
    let both = format!("{cookie}{csrf}");
    let get = |path: &str, headers: &str| request(node.admin, "GET", path, headers, "").status;
    assert_eq!(get("/v1/node/sessions", &both), 200);
    assert_eq!(get("/console/login", &both), 200);
    // Neither of them opens anything alone: browsers send cookies to other ports, too.
    assert_eq!(get("/v1/node/sessions", &cookie), 403);
    assert_eq!(get("/v1/node/sessions", &csrf), 401);
    assert_eq!(get("/console/login", &cookie), 401);
    assert_eq!(get("/v1/node/sessions", ""), 401);
    assert_eq!(
        get(
            "/v1/node/sessions",
            &format!("{both}Sec-Fetch-Site: cross-site\r\n")
        ),
        403
    );
    // Whoever is logged in reads what needs no key, from wherever he comes.
    assert_eq!(get("/ready", &cookie), 200);
    // Another page cannot act: it does not know the token.
    let act = |headers: &str| {
        let body = json!({"event": "news", "all": true, "args": ["from the console"]}).to_string();
        request(node.admin, "POST", "/v1/emit", headers, &body).status
    };
    let mut client = comes(&node, "ada", &[]);
    for forged in [
        cookie.clone(),
        format!("{cookie}X-Sockeye-CSRF: x\r\n"),
        format!("{cookie}{csrf}Sec-Fetch-Site: same-site\r\n"),
    ] {
        assert_eq!(act(&forged), 403, "{forged}");
    }
    assert_eq!(act(&csrf), 401);
    assert_eq!(act(&both), 202);
    assert_eq!(client.expect("news"), [json!("from the console")]);
    let actions = ask(&node, "/v1/node/audit")["actions"].clone();
    assert_eq!(
        (&actions[0]["what"], &actions[0]["key"]),
        (&json!("emit"), &json!("ops"))
    );
    // It ends when it is told to, and when its key is taken away.
    let again = login(&OPS.0, "");
    let told: Value = serde_json::from_str(&again.body).expect("JSON");
    let token = told["csrf"].as_str().expect("a token");
    let second = format!(
        "Cookie: {}\r\nX-Sockeye-CSRF: {token}\r\n",
        cookie_of(&again)
    );
    let forged = request(node.admin, "POST", "/console/logout", &cookie, "");
    assert_eq!((forged.status, forged.header("set-cookie")), (403, None));
    let out = request(node.admin, "POST", "/console/logout", &both, "");
    assert_eq!((out.status, get("/v1/node/ends", &both)), (204, 401));
    assert_eq!(get("/v1/node/ends", &second), 200);
    node.reload(&config("").replace(&*OPS.1, &key("ops", &[]).1));
    assert!(eventually(PATIENCE, || get("/v1/node/ends", &second) == 401));
}

#[test]
fn without_keys_there_is_little_to_see_and_nothing_to_do() {
    let node = Gateway::start("[server]\nshards = 1\n");
    let get = |path: &str| request(node.admin, "GET", path, "", "").status;
    assert_eq!(
        (get("/console/login"), get("/v1/node/overview")),
        (200, 200)
    );
    for path in ["sessions", "rooms", "ends", "backends", "config", "audit"] {
        assert_eq!(get(&format!("/v1/node/{path}")), 403, "{path}");
    }
    let kind = "Content-Type: application/json\r\n";
    let login = request(
        node.admin,
        "POST",
        "/console/login",
        kind,
        "{\"key\":\"x\"}",
    );
    assert_eq!(login.status, 401);
    assert!(login.body.contains("sockeye api-key"), "{}", login.body);
}
