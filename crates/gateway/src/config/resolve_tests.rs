//! Tests of `resolve` and `rules`: text in, resolved configuration or problems out.

use super::*;
use crate::config::layers::{Inputs, merge};
use ::rules::Action;
use hub::config::{AuthStyle, Rate};
use hub::limits::Limits;

fn machine() -> Machine {
    Machine {
        hostname: "sockeye-3".to_owned(),
        cores: 2,
        folder: PathBuf::from("/nowhere"),
        has_s3: true,
        has_kafka: true,
        has_nats: true,
        has_webtransport: true,
    }
}

fn try_resolve(text: &str) -> Result<Resolved, Vec<String>> {
    let inputs = Inputs {
        file: Some(("s.toml".to_owned(), text.to_owned())),
        ..Inputs::default()
    };
    let (layer, problems) = merge(&inputs);
    assert_eq!(problems, []);
    resolve(&layer, &machine())
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn resolved(text: &str) -> Resolved {
    try_resolve(text).expect(text)
}

/// The one problem of `text`.
fn problem(text: &str) -> String {
    let problems = try_resolve(text).expect_err(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].clone()
}

#[test]
fn nothing_configured_is_the_chat_profile() {
    let config = resolved("");
    assert_eq!(config.profile, Profile::Chat);
    assert_eq!(config.server.listen, ["[::]:3000".parse().expect("addr")]);
    assert_eq!(
        config.server.admin,
        Some("127.0.0.1:9090".parse().expect("addr"))
    );
    assert_eq!((config.server.shards, config.server.node), (2, None));
    assert!(config.server.chat_page);
    assert_eq!(config.hub.ping_interval, Duration::from_secs(25));
    assert_eq!(config.hub.ping_timeout, Duration::from_secs(10));
    assert_eq!(config.hub.max_payload, 1_000_000);
    assert_eq!(config.hub.plain_max_payload, 65_536);
    assert_eq!(config.hub.limits, Limits::default());
    let root = &config.rules.namespaces["/"];
    assert!(root.chat && root.client_joins);
    assert_eq!(
        root.events["typing"].action,
        Action::Rooms {
            room: None,
            echo: false
        }
    );
    assert_eq!(root.default_event.action, Action::Drop);
}

#[test]
fn the_other_profiles_have_their_own_values() {
    let socketio = resolved("profile = \"socket.io\"");
    assert!(!socketio.server.chat_page);
    assert_eq!(socketio.hub.ping_timeout, Duration::from_secs(20));
    let root = &socketio.rules.namespaces["/"];
    assert!(!root.chat && root.client_joins);
    assert_eq!(
        root.default_event.action,
        Action::Rooms {
            room: None,
            echo: false
        }
    );

    let plain = resolved("profile = \"plain\"");
    assert_eq!(plain.hub.max_payload, 65_536);
    assert_eq!(plain.hub.ping_interval, Duration::from_secs(30));
}

#[test]
fn websocket_only_is_one_line() {
    let config = resolved("[socketio]\ntransports = [\"websocket\"]");
    assert!(config.hub.transports.websocket && !config.hub.transports.polling);
    let text = "[socketio]\ntransports = [\"webtransport\"]";
    assert!(problem(text).contains("set tls.listen"));
    assert!(problem("[socketio]\ntransports = [\"sse\"]").contains("transport \"sse\""));
    assert!(problem("[socketio]\ntransports = []").contains("at least one transport"));
}

#[test]
fn cors_is_off_any_or_a_list() {
    assert_eq!(resolved("").hub.cors, Cors::Off);
    assert_eq!(resolved("[socketio]\ncors = [\"*\"]").hub.cors, Cors::Any);
    let origin = "https://a.example".to_owned();
    let config = resolved("[socketio]\ncors = [\"https://a.example\"]");
    assert_eq!(config.hub.cors, Cors::Origins(vec![origin]));
    assert!(problem("[socketio]\ncors = [\"a.example\"]").contains("s.toml:2:1"));
    assert!(problem("[socketio]\ncors = [\"*\", \"https://a.example\"]").contains("no others"));
    assert!(problem("[socketio]\ncors_headers = [\"a: b\"]").contains("header name \"a: b\""));
}

#[test]
fn addresses_are_checked() {
    let config = resolved("[server]\nlisten = [\"localhost:1\", \":2\", \"[::1]:3\"]");
    let texts: Vec<_> = config
        .server
        .listen
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(texts, ["127.0.0.1:1", "[::]:2", "[::1]:3"]);
    assert_eq!(resolved("[server]\nadmin = \"off\"").server.admin, None);
}

#[test]
fn a_wrong_address_is_named() {
    let problems = try_resolve("[server]\nlisten = [\"3000\"]").expect_err("no host");
    assert!(
        problems[0].contains("cannot use address \"3000\""),
        "{problems:?}"
    );
    assert!(problem("[server]\nlisten = [\"1.1.1.1:1\", \"1.1.1.1:1\"]").contains("twice"));
    assert!(problem("[server]\nadmin = \"yes\"").contains("or \"off\""));
}

#[test]
fn the_node_number_can_come_from_the_host_name() {
    assert_eq!(resolved("[server]\nnode = 1023").server.node, Some(1023));
    assert_eq!(
        resolved("[server]\nnode = \"hostname\"").server.node,
        Some(3)
    );
    let inputs = Inputs {
        file: Some((
            "s.toml".to_owned(),
            "[server]\nnode = \"hostname\"".to_owned(),
        )),
        ..Inputs::default()
    };
    let (layer, _) = merge(&inputs);
    for hostname in ["web", "web-x", "web-1024", ""] {
        let machine = Machine {
            hostname: hostname.to_owned(),
            ..machine()
        };
        let problems = resolve(&layer, &machine).expect_err(hostname);
        assert!(problems[0].message.contains("host name"), "{problems:?}");
    }
}

/// A first build leaves the client of buckets out. It must not take a folder in silence.
#[test]
fn a_bucket_needs_a_build_that_can_reach_it() {
    let text = "[large]\nfolder = \"bodies\"\nbucket = \"b\"\naccess_key = \"a\"\nsecret_key = \"s\"\n\
                [namespaces.\"/\"]\nlarge = \"store\"";
    let inputs = Inputs {
        file: Some(("s.toml".to_owned(), text.to_owned())),
        ..Inputs::default()
    };
    let (layer, _) = merge(&inputs);
    assert!(resolve(&layer, &machine()).is_ok());
    let machine = Machine {
        has_s3: false,
        ..machine()
    };
    let problems = resolve(&layer, &machine).expect_err("no client for S3");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].message.contains("--features s3"),
        "{problems:?}"
    );
}

#[test]
fn rules_of_an_event() {
    let config = resolved(
        r#"
        [namespaces."/game"]
        auto_join = ["lobby"]
        [namespaces."/game".default]
        action = "drop"
        [namespaces."/game".events.move]
        room = "board"
        echo = true
        rate = "10/s"
        schema = { type = "object", required = ["x"] }
        [namespaces."/game".events."who.am.i"]
        action = "reply"
        "#,
    );
    let game = &config.rules.namespaces["/game"];
    assert_eq!(game.auto_join, ["lobby"]);
    let step = &game.events["move"];
    assert_eq!(
        step.action,
        Action::Rooms {
            room: Some("board".to_owned()),
            echo: true
        }
    );
    assert_eq!(step.rate, Some(Rate::new(10, Duration::from_secs(1))));
    let schema: serde_json::Value =
        serde_json::from_str(step.schema.as_deref().expect("schema")).expect("JSON");
    assert_eq!(
        schema,
        serde_json::json!({"type": "object", "required": ["x"]})
    );
    assert_eq!(game.events["who.am.i"].action, Action::Reply);
}

#[test]
fn rules_that_can_not_work_are_refused() {
    let schema = problem("[namespaces.\"/\".events.a]\nschema = { type = \"objekt\" }");
    assert!(schema.contains("cannot use schema: /type: "), "{schema}");
    let event = |text: &str| problem(&format!("[namespaces.\"/\".events.move]\n{text}"));
    assert!(event("action = \"backend\"").contains("the namespace has no backend"));
    assert!(event("rate = \"5/250ms\"").contains("a second or more"));
    assert!(event("room = \"\"").contains("1 to 256 bytes, not 0"));
    assert!(problem("[namespaces.\"/x\"]\nauto_join = [\"\"]").contains("room's name"));
    assert!(event("action = \"drop\"\nroom = \"r\"").contains("s.toml:3:1"));
    assert!(event("schema = '{\"type\":\"colour\"}'").contains("cannot use schema"));
    assert!(event("schema_file = \"none.json\"").contains("/nowhere/none.json"));
    // It never ended.
    assert!(event("schema_file = \"/dev/zero\"").contains("it is no regular file"));
    assert!(event("schema_file = \"x\"\nschema = '{}'").contains("exclude each other"));
    assert!(problem("[namespaces.game]\nchat = true").contains("begins with a slash"));
    assert!(problem("[namespaces.game]\nchat = true").contains("did you mean \"/game\"?"));
    assert!(problem("[namespaces.\"/\".events.connect]\necho = true").contains("reserves"));
}

#[test]
fn schema_files_lie_beside_the_configuration() {
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join("move.json"), "{\"type\":\"object\"}").expect("write");
    let text = "[namespaces.\"/\".events.move]\nschema_file = \"move.json\"".to_owned();
    let inputs = Inputs {
        file: Some(("s.toml".to_owned(), text)),
        ..Inputs::default()
    };
    let machine = Machine {
        folder: folder.path().to_owned(),
        ..machine()
    };
    let config = resolve(&merge(&inputs).0, &machine).expect("resolved");
    let schema = config.rules.namespaces["/"].events["move"]
        .schema
        .as_deref();
    assert_eq!(schema, Some("{\"type\":\"object\"}"));
}

#[test]
fn settings_are_checked_against_each_other() {
    assert!(problem("[plain]\nnamespace = \"/no\"").contains("no namespace \"/no\""));
    assert!(problem("[plain]\npath = \"/socket.io/x\"").contains("below socketio.path"));
    assert!(problem("[socketio]\npath = \"/socket.io\"").contains("must look like"));
    assert!(problem("[socketio]\nping_timeout = \"0s\"").contains("longer than zero"));
    // It was 30 days without a word.
    assert!(problem("[limits]\nclose_timeout = \"31d\"").contains("must be at most \"30d\""));
    assert!(problem("[plain]\nmax_payload = \"2MiB\"").contains("outbox_bytes_max (1MiB)"));
    assert!(problem("[plain]\nmax_payload = \"0B\"").contains("\"1B\""));
    assert!(problem("[log]\nlevel = \"x=y=z\"").contains("log level"));
    assert!(problem("[sse]\npath = \"/socket.io/x\"").contains("below socketio.path"));
    assert!(problem("[sse]\npath = \"/ws\"").contains("that of plain.path"));
    assert!(problem("[sse]\npath = \"/\"").contains("serves it already"));
    assert!(problem("[sse]\npath = \"sse\"").contains("must look like \"/sse\""));
    let without = resolved("[plain]\nenabled = false\nnamespace = \"/no\"");
    assert_eq!(without.hub.sse_path, None);
}

#[test]
fn listeners_that_are_not_for_clients_have_ports_of_their_own() {
    let admin = "[server]\nlisten = [\"127.0.0.1:80\"]\nadmin = \"127.0.0.1:80\"";
    let said = "\"server.admin\": cannot listen on 127.0.0.1:80: server.listen has 127.0.0.1:80; the operators' listener needs";
    assert!(problem(admin).contains(said), "{}", problem(admin));
    let workers = problem("[workers]\nlisten = \"127.0.0.1:3000\"");
    assert!(
        workers.contains(
            "\"workers.listen\": cannot listen on 127.0.0.1:3000: server.listen has [::]:3000"
        ),
        "{workers}"
    );
    let relay = problem(
        "[cluster]\nadapter = \"redis\"\nurls = [\"redis://r\"]\nsecret = \"s\"\nrelay_listen = \"127.0.0.1:9090\"",
    );
    assert!(
        relay.contains("server.admin has 127.0.0.1:9090; the relay needs"),
        "{relay}"
    );
}

/// It was found at the start only, where it looked like another process.
#[test]
fn one_path_for_two_sockets_passed_the_check() {
    let both = "[server]\nlisten = [\"127.0.0.1:80\", \"unix:/run/a.sock\"]\n[workers]\nlisten = \"unix:/run//a.sock\"";
    let said = "\"workers.listen\": cannot listen on unix:/run//a.sock: server.listen has it; name another path";
    assert!(problem(both).contains(said), "{}", problem(both));
    let both = "[upgrade]\nsocket = \"/run/a.sock\"\n[workers]\nlisten = \"unix:/run/a.sock\"";
    let said = "\"upgrade.socket\": cannot listen on unix:/run/a.sock: workers.listen has it";
    assert!(problem(both).contains(said), "{}", problem(both));
    // Each upgrade was refused: its successor's own socket had no place.
    let both = "[upgrade]\nsocket = \"/run/a.sock\"\n[workers]\nlisten = \"unix:/run/a.sock.new\"";
    let said = "\"upgrade.socket\": cannot listen on unix:/run/a.sock.new: workers.listen has it";
    assert!(problem(both).contains(said), "{}", problem(both));
}

#[test]
fn a_cluster_that_can_not_work_is_found_before_the_start() {
    let said = |more: &str| problem(&format!("[cluster]\nadapter = \"redis\"\n{more}"));
    for (more, why) in [
        ("", "needs a server"),
        ("urls = [\"localhost:6379\"]", "redis://HOST:PORT is needed"),
        (
            "urls = [\"http://r:6379\"]",
            "cannot use the address \"http://r:6379\"",
        ),
        ("urls = [\"redis://r/3\"]", "leave the number out"),
        (
            "urls = [\"redis://a\", \"rediss://b\"]",
            "must begin with rediss://",
        ),
        ("urls = [\"redis://me:x@a\"]", "cluster.password"),
        (
            "urls = [\"redis://a\"]\nprefix = \"a\\nb\"",
            "must not have line ends",
        ),
        (
            "urls = [\"redis://r\"]\nrelay_listen = \"0.0.0.0:9092\"",
            "needs cluster.secret",
        ),
        (
            "urls = [\"rediss://r\"]\ntls_ca = \"no.pem\"",
            "cannot read /nowhere/no.pem",
        ),
    ] {
        assert!(said(more).contains(why), "{more}: {}", said(more));
    }
}

#[cfg(feature = "history-redis")]
#[test]
fn a_cluster_of_redis_has_no_numbered_databases_for_history() {
    let text = |mode: &str| {
        format!(
            "[history]\nstore = \"redis\"\nurl = \"redis://h:7000/3\"\n[history.redis]\nmode = {mode:?}\n\
             [namespaces.\"/\".history]\nstored = true\nrooms = [\"*\"]\n[namespaces.\"/\".events.say]\naction = \"rooms\"\nhistory = true\n"
        )
    };
    let refused = problem(&text("cluster"));
    assert!(refused.contains("leave the number out"), "{refused}");
    resolved(&text("single"));
}

/// What programs and nodes share in Redis has no place in NATS.
#[test]
fn a_cluster_over_nats_refuses_what_needs_redis() {
    let good = "urls = [\"nats://a:4222\"]\nsecret = \"s\"\n";
    let said = |more: &str| problem(&format!("[cluster]\nadapter = \"nats\"\n{more}"));
    for (more, why) in [
        ("", "needs a server: set cluster.urls = [\"nats://"),
        (
            "urls = [\"redis://a\"]",
            "nats://HOST:PORT or tls://HOST:PORT is needed",
        ),
        ("urls = [\"nats://me:x@a\"]", "cluster.password"),
        (&format!("{good}mode = \"sentinel\""), "is about Redis"),
        (&format!("{good}prefix = \"a.b:\""), "letters, digits"),
        (&format!("{good}user = \"u\""), "need each other"),
        (&format!("{good}credentials_file = \"none\""), "cannot read"),
        (&format!("{good}[compat]\nenabled = true"), "speak by Redis"),
        (
            &format!("{good}[cluster.directory]\nenabled = true"),
            "stands in Redis",
        ),
        (
            &format!("{good}[cluster.feed.\"orders\"]\npublish = [\"n\"]"),
            "channels of Redis",
        ),
    ] {
        assert!(said(more).contains(why), "{more}: {}", said(more));
    }
    let file = "[cluster]\nadapter = \"redis\"\nurls = [\"redis://r\"]\ncredentials_file = \"c\"";
    assert!(problem(file).contains("is for cluster.adapter = \"nats\""));
}

#[test]
fn a_certificate_without_its_key_is_looked_for_where_it_stands() {
    let text = "[tls]\nlisten = [\"127.0.0.1:3443\"]\ncert = [\"a.pem\"]";
    let said = problem(text);
    assert!(
        said.starts_with("s.toml:3:1: \"tls.cert\": each certificate needs its key"),
        "{said}"
    );
}

#[test]
fn every_problem_is_reported() {
    let text = "[server]\nlisten = [\"a\", \"b\"]\nadmin = \"c\"\n[socketio]\npath = \"x\"";
    let problems = try_resolve(text).expect_err("four problems");
    assert_eq!(problems.len(), 4, "{problems:?}");
}

#[test]
fn auth_is_off_and_chat_says_why_in_its_own_way() {
    let auth = resolved("").auth;
    assert!(!auth.hub.required && auth.verifier.is_none());
    assert_eq!(auth.hub.style, AuthStyle::Chat);
    assert_eq!(auth.hub.query_parameter, "token");
    for profile in ["socket.io", "plain"] {
        let auth = resolved(&format!("profile = {profile:?}")).auth;
        assert_eq!(auth.hub.style, AuthStyle::Strict, "{profile}");
    }
}

#[test]
fn auth_settings_arrive_at_the_verifier() {
    let text = r#"
        [auth]
        required = true
        secret = "0123456789abcdef0123456789abcdef"
        algorithms = ["HS512"]
        issuer = ["a", "b"]
        leeway = "3s"
        uid_claim = "/user/id"
        [limits]
        rooms_per_socket_max = 7
    "#;
    let auth = resolved(text).auth;
    let verifier = auth.verifier.expect("a key is configured");
    assert_eq!(verifier.issuer, ["a", "b"]);
    assert_eq!(verifier.leeway, Duration::from_secs(3));
    assert_eq!(
        (verifier.uid_claim.as_str(), verifier.rooms_max),
        ("/user/id", 7)
    );
    assert_eq!(verifier.algorithms, [identity::Algorithm::HS512]);
    assert!(!format!("{verifier:?}").contains("0123456789"));
}

#[test]
fn auth_that_cannot_work_is_refused_with_its_key_and_without_the_secret() {
    for (text, words) in [
        (
            "required = true",
            "s.toml:2:1: \"auth.required\": tokens cannot be checked without a key",
        ),
        (
            "secret = \"hunter2\"",
            "s.toml:2:1: \"auth.secret\": a secret of 32 bytes or more",
        ),
        (
            "secret_file = \"none\"",
            "\"auth.secret_file\": cannot use /nowhere/none",
        ),
        ("jwks_url = \"http://id.example.org/\"", "https is needed"),
        ("algorithms = [\"none\"]", "cannot use algorithm \"none\""),
        ("uid_claim = \"\"", "the name of a claim is needed"),
        (
            "timeout = \"0s\"",
            "\"auth.timeout\": must be longer than zero",
        ),
        ("leeway = \"6m\"", "clocks that differ"),
    ] {
        let problem = problem(&format!("[auth]\n{text}"));
        assert!(problem.contains(words), "{problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

#[test]
fn members_that_were_lost_are_not_waited_for_without_end() {
    let grace =
        |grace: &str| format!("[namespaces.\"/\".presence]\nenabled = true\ngrace = {grace:?}");
    let config = resolved(&grace("5m"));
    assert!(config.hub.presence["/"].is_some());
    let refused = problem(&grace("6m"));
    assert!(
        refused.contains("presence.grace\": must be \"5m\" or less"),
        "{refused}"
    );
}

#[test]
fn a_successors_socket_has_room_behind_the_path() {
    let config = |len: usize| format!("[upgrade]\nsocket = \"/{}\"", "s".repeat(len - 1));
    assert!(resolved(&config(103)).upgrade.is_some());
    let refused = problem(&config(104));
    assert!(refused.contains("it may have 103 bytes"), "{refused}");
    assert!(refused.contains("these are 104"), "{refused}");
}

#[test]
fn unix_sockets_stand_beside_addresses() {
    let config = resolved("[server]\nlisten = [\"unix:/run/a.sock\", \":2\"]\nunix_mode = \"600\"");
    assert_eq!(config.server.unix, [PathBuf::from("/run/a.sock")]);
    assert_eq!(config.server.listen.len(), 1);
    assert_eq!(config.server.unix_mode, 0o600);
    assert_eq!(resolved("").server.unix_mode, 0o660);
    let only = resolved("[server]\nlisten = [\"unix:/run/a.sock\"]");
    assert!(only.server.listen.is_empty());
    let twice = "[server]\nlisten = [\"unix:/a\", \"unix:/a\"]";
    assert!(problem(twice).contains("cannot listen on unix:/a twice"));
    assert!(problem("[server]\nlisten = [\"unix:a\"]").contains("a whole path is needed"));
    assert!(problem("[server]\nunix_mode = \"rw\"").contains("\"0660\""));
}

#[test]
fn proxies_are_believed_when_they_are_named() {
    use hub::trust::{ClientHeader, Proxies, ProxyProtocol};
    assert_eq!(resolved("").hub.proxies, Proxies::default());
    let config = resolved(
        "[server]\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]\nclient_header = \"forwarded\"\n\
         proxy_protocol = \"required\"",
    );
    let proxies = config.hub.proxies;
    assert!(proxies.trusts([10, 1, 2, 3].into()) && !proxies.trusts([11, 1, 2, 3].into()));
    assert_eq!(proxies.header, ClientHeader::Forwarded);
    assert_eq!(proxies.protocol, ProxyProtocol::Required);
    assert!(problem("[server]\ntrusted_proxies = [\"10.0.0.0/33\"]").contains("s.toml:2:1"));
    let nobody = problem("[server]\nproxy_protocol = \"optional\"");
    assert!(nobody.contains("names nobody to believe"), "{nobody}");
}

#[test]
fn origins_may_have_a_star_for_names_below() {
    let config = resolved("[socketio]\norigins = [\"https://*.a.example\", \"null\"]");
    assert_eq!(config.hub.origins, ["https://*.a.example", "null"]);
    assert_eq!(config.hub.cors_max_age, Duration::from_secs(600));
    assert!(problem("[socketio]\norigins = [\"https://a.example/\"]").contains("origin"));
    assert!(problem("[socketio]\norigins = [\"*\"]").contains("origin \"*\""));
}

const KITCHEN: &str = "[backends.kitchen]\napi_keys = [\"cook:0000000000000000000000000000000000000000000000000000000000000000\"]\n";

#[test]
fn backends_that_can_not_work_are_refused() {
    let with =
        |listen: &str, more: &str| problem(&format!("[workers]\nlisten = {listen:?}\n{more}"));
    assert!(problem(KITCHEN).contains("no worker of [backends.kitchen] can attach"));
    assert!(with("192.0.2.1:9091", KITCHEN).contains("must be a loopback address"));
    assert!(with("here", KITCHEN).contains("workers.listen"));
    let secured = |keys: &str| {
        let text = format!("[workers]\nlisten = \"192.0.2.1:9091\"\n{keys}\n{KITCHEN}");
        try_resolve(&text).expect_err(&text).join("\n")
    };
    assert!(secured("client_ca = \"ca.pem\"").contains("without TLS: set workers.cert"));
    assert!(secured("cert = [\"a.pem\"]").contains("workers.cert names 1, workers.key 0"));
    let missing = secured("cert = [\"a.pem\"]\nkey = [\"a.key\"]\nclient_ca = \"ca.pem\"");
    for why in [
        "\"workers.cert\": cannot read",
        "\"workers.key\": cannot read",
        "\"workers.client_ca\": cannot read",
    ] {
        assert!(missing.contains(why), "{missing}");
    }
    assert!(!missing.contains("loopback"), "{missing}");
    assert!(secured("plaintext = true\ncert = [\"a.pem\"]").contains("remove one of the two"));
    let unused = problem("[workers]\ncert = [\"a.pem\"]");
    assert!(unused.contains("no address uses it"), "{unused}");
    let file = format!("[workers]\nlisten = \"unix:/run/w.sock\"\n{KITCHEN}");
    let workers = resolved(&file).workers;
    assert_eq!(workers, Some(Listen::Unix("/run/w.sock".into())));
    let secured = file.replacen('\n', "\ncert = [\"a.pem\"]\n", 1);
    let problems = try_resolve(&secured).expect_err(&secured).join("\n");
    assert!(problems.contains("a Unix socket has no TLS"), "{problems}");
    assert!(with("unix:w.sock", KITCHEN).contains("a whole path is needed"));
    let keyless = "[backends.kitchen]\nwindow = \"1MiB\"";
    assert!(with("127.0.0.1:9091", keyless).contains("sockeye api-key NAME"));
    let unknown = "[namespaces.\"/\"]\nbackend = \"cellar\"";
    assert!(problem(unknown).contains("there is no backend \"cellar\""));
}

#[test]
fn endpoints_that_can_not_be_called_are_refused() {
    let shop = |keys: &str| problem(&format!("[backends.shop]\n{keys}"));
    for (url, why) in [
        ("shop", "relative URL"),
        ("ftp://shop.example", "https address is needed"),
        ("http://shop.example", "https is needed"),
        ("https://ann:secret@shop.example", "user and password"),
        ("https://10.1.2.3/", "no address on the Internet"),
        ("https://[::1]/", "no address on the Internet"),
        ("https://2130706433/", "no address on the Internet"),
    ] {
        let told = shop(&format!("url = {url:?}"));
        assert!(told.contains(why), "{url}: {told}");
    }
    let both = format!("{KITCHEN}url = \"https://shop.example\"");
    assert!(problem(&both).contains("no worker attaches to a backend with url"));
    let text = "[backends.shop]\nurl = \"http://10.1.2.3/\"\nprivate_addresses = true\nsecret = \"s\"\n[namespaces.\"/\"]\nbackend = \"shop\"";
    let resolved = resolved(text);
    let backends = resolved.backends.expect("a backend");
    let webhook = backends.kitchens["shop"].webhook.clone().expect("a url");
    assert_eq!((resolved.workers, webhook.secrets.len()), (None, 1));
}

/// A profile's rules are for servers without a backend: `join` and `message` of a client must reach the worker.
#[test]
fn a_profile_takes_no_event_from_a_backend() {
    let text = format!(
        "[workers]\nlisten = \"127.0.0.1:0\"\n{KITCHEN}[namespaces.\"/\"]\nbackend = \"kitchen\"\n\
         [namespaces.\"/\".events.local]\naction = \"reply\"\n"
    );
    for profile in Profile::ALL {
        let rules = resolved(&format!("profile = {:?}\n{text}", profile.name())).rules;
        let rules = &rules.namespaces["/"];
        assert!(!rules.chat && !rules.client_joins, "{profile:?}");
        assert_eq!(rules.default_event.action, Action::Backend);
        assert_eq!(rules.events.keys().collect::<Vec<_>>(), ["local"]);
    }
}

#[test]
fn frames_that_are_not_parsed_have_a_namespace_with_rules_of_its_own() {
    let rules = |text: &str| resolved(text).rules.namespaces;
    let relayed = |echo| Action::Rooms { room: None, echo };
    assert!(!rules("").contains_key("/raw"));
    assert_eq!(resolved("").hub.plain_raw, None);
    let own = &rules("[plain.raw]\npath = \"/feed\"")["/raw"];
    assert_eq!(own.auto_join, ["/feed"]);
    assert_eq!(own.events["message"].action, relayed(false));
    assert_eq!(
        (&own.default_event.action, own.client_joins),
        (&Action::Drop, false)
    );
    let echo = &rules("[plain.raw]\npath = \"/feed\"\nnamespace = \"/x\"\necho = true")["/x"];
    assert_eq!(echo.events["message"].action, relayed(true));
    // What is said of the namespace comes first, and what is not said stays.
    let text = "[plain.raw]\npath = \"/feed\"\naction = \"reply\"\n[namespaces.\"/raw\"]\nauto_join = [\"a\"]\n\
                [namespaces.\"/raw\".events.message]\nrate = \"5/s\"";
    let said = &rules(text)["/raw"];
    assert_eq!((said.auto_join.len(), &*said.auto_join[0]), (1, "a"));
    assert_eq!(said.events["message"].action, Action::Reply);
    assert!(said.events["message"].rate.is_some());
    let said = &rules(&format!("{text}\naction = \"drop\""))["/raw"];
    assert_eq!(said.events["message"].action, Action::Drop);
    // A backend of the namespace gets frames only if that is said.
    let backend = format!(
        "[workers]\nlisten = \"127.0.0.1:0\"\n{KITCHEN}[namespaces.\"/raw\"]\nbackend = \"kitchen\"\n[plain.raw]\npath = \"/feed\"\n"
    );
    let kept = &rules(&backend)["/raw"];
    assert_eq!(kept.events["message"].action, relayed(false));
    let given = &rules(&format!("{backend}action = \"backend\""))["/raw"];
    assert_eq!(given.events["message"].action, Action::Backend);
    // Also without the protocol that is parsed, and beside the pages.
    let alone = resolved("[plain]\nenabled = false\nraw.path = \"/\"").hub;
    assert_eq!(alone.plain_path, None);
    assert_eq!(alone.plain_raw.expect("a path").path, "/");
}

#[test]
fn a_path_for_frames_that_leads_elsewhere_is_refused() {
    for (keys, why) in [
        ("path = \"\"", "must look like \"/raw\""),
        ("path = \"raw\"", "must look like \"/raw\""),
        ("path = \"/ws\"", "is that of plain.path"),
        ("path = \"/sse\"", "is that of sse.path"),
        ("path = \"/socket.io/raw\"", "lies below socketio.path"),
        ("path = \"/health\"", "serves it already"),
        (
            "path = \"/raw\"\naction = \"backend\"",
            "the namespace has no backend",
        ),
        (
            "path = \"/raw\"\naction = \"drop\"\necho = true",
            "has an echo, not \"drop\"",
        ),
        (
            "path = \"/raw\"\nnamespace = \"raw\"",
            "a namespace begins with a slash",
        ),
    ] {
        let told = problem(&format!("[plain.raw]\n{keys}"));
        assert!(told.contains(why), "{keys}: {told}");
    }
    let long = format!("[plain.raw]\npath = \"/{}\"", "x".repeat(300));
    assert!(problem(&long).contains("a room's name has 1 to"));
}
