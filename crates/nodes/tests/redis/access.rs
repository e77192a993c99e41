//! Passwords, users with few rights, and TLS.

use super::*;
use nodes::engine::StreamNews;
use servers::Redis;

const PASSWORD: [&str; 2] = ["-a", "secret"];

fn guarded(args: &[&str]) -> Redis {
    let args = [&["--requirepass", "secret"], args].concat();
    Redis::prepare(|_| {}, &args, &PASSWORD)
}

fn url(redis: &Redis, login: &str) -> Settings {
    let urls = [format!("redis://{login}@{}", redis.addr())];
    Settings::new(&urls, Mode::Single, None).expect("settings")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_password_opens_and_a_wrong_one_is_named() {
    let redis = guarded(&[]);
    let mut a = Node::open(url(&redis, ":secret")).await;
    a.hears(&[classic("x")]).await;
    for (login, wanted) in [
        (":wrong", "user \"default\" or its password is wrong"),
        ("nobody:secret", "user \"nobody\" or its password is wrong"),
    ] {
        let error = redis::open(url(&redis, login)).await.expect_err("refused");
        let error = error.to_string();
        assert!(
            error.contains(wanted) && !error.contains("secret"),
            "{error}"
        );
    }
    let open = settings(&[redis.addr()], Mode::Single);
    let error = redis::open(open).await.expect_err("refused").to_string();
    assert!(error.contains("it wants a password"), "{error}");
}

/// The rights that the documents name are enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_user_with_the_rights_of_the_documents_can_do_all() {
    let redis = guarded(&[]);
    let rights = nodes::redis::ACL.split(' ');
    let user = ["ACL", "SETUSER", "sockeye", "on", ">pass"];
    let command: Vec<&str> = user.into_iter().chain(rights).collect();
    assert_eq!(redis.ask(&command).trim(), "OK", "{command:?}");
    let mut a = Node::open(url(&redis, "sockeye:pass")).await;
    a.hears(&[classic("sockeye:x"), sharded("sockeye:x")]).await;
    a.publishes(&[publish(Kind::Classic, "sockeye:x", "1")])
        .await;
    assert_eq!(a.message().await.body, b"1");
    let lease = nodes::engine::Lease {
        key: b"sockeye:{nodes}:1"[..].into(),
        counter: b"sockeye:{nodes}:epoch"[..].into(),
        epoch: 1,
        payload: String::new(),
        over: None,
        time: Duration::from_secs(60),
    };
    a.engine.take(&lease).await.expect("a lease");
    a.engine.hold(&lease).await.expect("a lease kept");
    a.engine
        .holders(std::slice::from_ref(&lease.key))
        .await
        .expect("leases");
    a.engine.release(&lease).await.expect("released");
    assert_eq!(a.counts(Kind::Classic, &["sockeye:x"]).await, [1]);
    // What a user may not see is left out.
    let server = a.engine.server().await.expect("INFO");
    assert_eq!(
        (server.name.as_str(), server.pubsub_buffer),
        ("redis", None)
    );
    redis.ask(&["ACL", "LOG", "RESET"]);
    let doctor = nodes::redis::ACL_DOCTOR;
    redis.ask(&["ACL", "SETUSER", "sockeye", doctor]);
    let server = a.engine.server().await.expect("INFO");
    assert!(server.pubsub_buffer.is_some());
    // Nothing was refused on the way.
    let log = redis.ask(&["ACL", "LOG"]);
    assert_eq!(log.trim(), "");
    let beside = nodes::redis::ACL_BESIDE_NODE.split(' ');
    let user = ["ACL", "SETUSER", "sockeye"].into_iter();
    redis.ask(&user.chain(beside).collect::<Vec<_>>());
    let mut entries = a.engine.read(b"socket.io"[..].into());
    super::stream::waits_for_entries(&redis);
    let appended = a.engine.append(b"socket.io", &[("n", "1".to_owned())], 10);
    assert!(appended.await.is_complete());
    let read = entries.recv().await;
    assert!(matches!(read, Some(StreamNews::Entries(_))), "{read:?}");
    a.hears(&[Topic::Pattern(b"socket.io#*"[..].into())]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_right_that_is_missing_is_named() {
    let redis = guarded(&[]);
    let user = [
        "ACL",
        "SETUSER",
        "few",
        "on",
        ">pass",
        "+ping",
        "+subscribe",
    ];
    assert_eq!(redis.ask(&user).trim(), "OK");
    let mut a = Node::open(url(&redis, "few:pass")).await;
    let refused = a.engine.publish(&[publish(Kind::Classic, "x", "")]).await;
    let trouble = refused.trouble.expect("no right").to_string();
    assert!(
        trouble.contains("NOPERM") && trouble.contains("publish"),
        "{trouble}"
    );
    a.engine.subscribe(vec![classic("x")]);
    let trouble = a.down().await;
    assert!(trouble.contains("NOPERM"), "{trouble}");
    assert_eq!(
        redis.ask(&["ACL", "SETUSER", "few", "allchannels"]).trim(),
        "OK"
    );
    a.up().await;
    assert!(a.heard.contains(&classic("x")));
}

/// A user whose password is changed is thrown out; the connection that it had stays closed until the password is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_user_that_is_removed_and_returns_is_served_again() {
    let redis = guarded(&[]);
    let user = [
        "ACL",
        "SETUSER",
        "it",
        "on",
        ">pass",
        "allkeys",
        "allchannels",
        "allcommands",
    ];
    assert_eq!(redis.ask(&user).trim(), "OK");
    let mut a = Node::open(url(&redis, "it:pass")).await;
    a.hears(&[classic("x")]).await;
    a.up().await;
    assert_eq!(redis.ask(&["ACL", "DELUSER", "it"]).trim(), "1");
    let all = a.until("the reason", |_, news| match news {
        News::Down(trouble) => trouble.to_string().contains("password"),
        _ => false,
    });
    let _ = timeout(Duration::from_secs(1), all).await;
    assert_eq!(redis.ask(&user).trim(), "OK");
    a.up().await;
    a.publishes(&[publish(Kind::Classic, "x", "back")]).await;
    assert_eq!(a.message().await.body, b"back");
}

/// As the documents say: the new password comes first, and the old one goes last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_password_is_changed_while_nodes_run() {
    let redis = guarded(&[]);
    let user = |words: &[&str]| {
        let command = [&["ACL", "SETUSER", "it"], words].concat();
        assert_eq!(redis.ask(&command).trim(), "OK");
    };
    user(&["on", ">old", "allkeys", "allchannels", "allcommands"]);
    let mut before = Node::open(url(&redis, "it:old")).await;
    before.hears(&[classic("x")]).await;
    user(&[">new"]);
    let after = Node::open(url(&redis, "it:new")).await;
    user(&["<old"]);
    after.publishes(&[publish(Kind::Classic, "x", "1")]).await;
    assert_eq!(before.message().await.body, b"1");
    before.publishes(&[publish(Kind::Classic, "x", "2")]).await;
    assert_eq!(before.message().await.body, b"2");
    assert!(redis::open(url(&redis, "it:old")).await.is_err());
}

/// A server's certificate for this machine, its key, and the settings with which Redis serves TLS only and asks for a certificate.
fn tls_server(certificate: &rcgen::CertifiedKey<rcgen::KeyPair>) -> Redis {
    let (pem, key) = (
        certificate.cert.pem(),
        certificate.signing_key.serialize_pem(),
    );
    let prepare = |folder: &std::path::Path| {
        std::fs::write(folder.join("c.pem"), &pem).expect("write");
        std::fs::write(folder.join("c.key"), &key).expect("write");
    };
    Redis::prepare_tls(prepare, "c.pem", "c.key")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn over_tls_both_sides_show_certificates() {
    use nodes::redis::tls::{self, Files};
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let redis = tls_server(&made);
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let open = |files: Files<'_>| {
        let tls = tls::config(files).expect("files");
        let urls = [format!("rediss://{}", redis.addr())];
        redis::open(Settings::new(&urls, Mode::Single, Some(tls)).expect("settings"))
    };
    let known = Files {
        authorities: Some(pem.as_bytes()),
        identity: Some((pem.as_bytes(), key.as_bytes())),
    };
    let (engine, mut feed) = open(known).await.expect("TLS");
    engine.subscribe(vec![classic("x")]);
    while !matches!(feed.next().await, Some(News::Heard(_))) {}
    let published = engine.publish(&[publish(Kind::Classic, "x", "1")]).await;
    assert_eq!(published.receivers, [Some(1)]);
    let anonymous = Files {
        authorities: Some(pem.as_bytes()),
        identity: None,
    };
    let error = open(anonymous).await.expect_err("no certificate shown");
    assert!(error.to_string().contains("ertificate"), "{error}");
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let other = other.cert.pem();
    let stranger = Files {
        authorities: Some(other.as_bytes()),
        ..known
    };
    let error = open(stranger).await.expect_err("another authority");
    assert!(error.to_string().contains("ertificate"), "{error}");
    let error = tls::config(Files {
        authorities: Some(b"nothing"),
        identity: None,
    });
    let error = error.expect_err("no PEM").to_string();
    assert!(error.contains("BEGIN CERTIFICATE"), "{error}");
}
