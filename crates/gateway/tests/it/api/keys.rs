//! Scopes and namespaces of keys.

use super::{KEY, call_with, key};
use crate::harness::Gateway;
use serde_json::json;

#[test]
fn a_key_does_what_it_is_for_and_nothing_else() {
    let keys = [
        key("sender", &["emit"]),
        key("mover", &["members", "/"]),
        key("bouncer", &["disconnect", "/lab"]),
        key("viewer", &["read"]),
        key("lab", &["/lab"]),
    ];
    let entries: Vec<&str> = keys.iter().map(|(_, entry)| entry.as_str()).collect();
    let config = format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\nmetrics_need_key = true\napi_keys = {entries:?}\n[namespaces.\"/lab\"]\n"
    );
    let gateway = Gateway::start(&config);
    let emit = json!({"event": "a", "all": true}).to_string();
    let join = json!({"all": true, "join": ["a"]}).to_string();
    let end = json!({"all": true}).to_string();
    let in_lab = |body: &str| body.replace('{', "{\"namespace\":\"/lab\",");
    let calls = [
        // By key: sender, mover, bouncer, viewer, lab.
        ("POST", "/v1/emit", emit.clone(), [202, 403, 403, 403, 403]),
        ("POST", "/v1/emit", in_lab(&emit), [202, 403, 403, 403, 202]),
        ("POST", "/v1/join", join.clone(), [403, 202, 403, 403, 403]),
        ("POST", "/v1/join", in_lab(&join), [403, 403, 403, 403, 202]),
        (
            "POST",
            "/v1/disconnect",
            end.clone(),
            [403, 403, 403, 403, 403],
        ),
        (
            "POST",
            "/v1/disconnect",
            in_lab(&end),
            [403, 403, 202, 403, 202],
        ),
        (
            "GET",
            "/v1/sockets?all=true",
            String::new(),
            [403, 403, 403, 200, 403],
        ),
        (
            "GET",
            "/v1/rooms?namespace=/lab",
            String::new(),
            [403, 403, 403, 200, 200],
        ),
        ("GET", "/v1/nodes", String::new(), [403, 403, 403, 200, 403]),
        (
            "POST",
            "/v1/nodes/9/drain",
            String::new(),
            [403, 403, 403, 403, 403],
        ),
        ("GET", "/metrics", String::new(), [403, 403, 403, 200, 403]),
        (
            "GET",
            "/debug/memory",
            String::new(),
            [403, 403, 403, 403, 403],
        ),
        (
            "GET",
            "/v1/openapi.json",
            String::new(),
            [200, 200, 200, 200, 200],
        ),
    ];
    for (method, path, body, expected) in calls {
        let status = |(key, _): &(String, String)| {
            call_with(&gateway, key, "", method, path, &body).0.status
        };
        let statuses: Vec<u16> = keys.iter().map(status).collect();
        assert_eq!(statuses, expected, "{method} {path} {body}");
    }
    let (answer, problem) = call_with(&gateway, &keys[0].0, "", "GET", "/v1/sockets?all=true", "");
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("\"read\"")),
        "{problem}"
    );
    assert_eq!(
        call_with(&gateway, &KEY.0, "", "GET", "/v1/sockets?all=true", "")
            .0
            .status,
        401
    );
}
