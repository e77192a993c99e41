//! The library between a program and a real server.

use async_nats::jetstream::{self, stream};
use nats::{
    Action, Credentials, Encoding, Event, Inlet, Key, Limits, Mode, Moment, Operator, Outlet,
    Pattern, Reading, Settings, Source, Tls, Unhandled, engine,
};
use servers::{Cable, Nats};
use std::collections::BTreeSet;
use std::io::copy;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(60);

fn settings(nats: &Nats) -> Settings {
    Settings::new(&[nats.url()], Credentials::None, Tls::default()).expect("a URL")
}

fn make_stream(runtime: &Runtime, nats: &Nats, name: &str, subject: &str) -> jetstream::Context {
    runtime.block_on(async {
        let client = async_nats::connect(nats.url()).await.expect("a client");
        let streams = jetstream::new(client);
        let config = stream::Config {
            name: name.to_owned(),
            subjects: vec![subject.to_owned()],
            ..stream::Config::default()
        };
        streams.create_stream(config).await.expect("a stream");
        streams
    })
}

fn event<'a>(socket: &'a str, body: &'a str) -> Event<'a> {
    Event {
        moment: Moment::Message,
        socket,
        user: None,
        room: None,
        inner: None,
        operator: Some(Operator::Unicast),
        auth: None,
        trace: None,
        namespace: "/",
        name: Some("order"),
        sequence: None,
        encoding: Encoding::Json,
        attachments: None,
        key: Key::Socket,
        body: body.as_bytes(),
    }
}

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What one library publishes the other one reads: each event once, in order for its key, whatever the server does meanwhile.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn each_event_is_there_once_and_in_order_while_the_server_restarts() {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    const EVENTS: usize = 3_000;
    let runtime = Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let mut nats = Nats::start();
    make_stream(&runtime, &nats, "EVENTS", "sockeye.>");
    let pattern = Pattern::new("sockeye.{namespace}.{name}").expect("a pattern");
    let limits = Limits {
        waiting_bytes_max: 64 << 20,
        record_bytes_max: 1 << 20,
        time: Duration::from_secs(60),
    };
    let outlet = Outlet::start(&settings(&nats), pattern, Mode::JetStream, limits);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let reading = Reading {
        subject: "sockeye.>".to_owned(),
        source: Source::Stream {
            stream: "EVENTS".to_owned(),
            durable: "reader".to_owned(),
            pending_max: 1,
        },
        namespaces: vec!["/".to_owned()],
        operators: Operator::ALL.to_vec(),
        dead_letters: None,
        value_bytes_max: 1 << 20,
    };
    let hears = Arc::clone(&heard);
    let mut later = 0;
    let inlet = Inlet::start(&settings(&nats), reading, move |_, command| {
        later += 1;
        if later == 10 {
            return Err(Unhandled::Later);
        }
        let Action::Emit { body, .. } = command.action else {
            return Err("no event".to_owned().into());
        };
        let body = String::from_utf8_lossy(body).into_owned();
        hears.lock().expect("a lock").push(body);
        Ok(())
    })
    .expect("it reads");
    for n in 0..EVENTS {
        for key in KEYS {
            let taken = outlet.send(&event(key, &format!("{key}{n}")));
            taken.expect("there is room");
        }
        match n {
            1_000 => {
                soon("some are stored", || outlet.figures().produced >= 500);
                nats.stop();
            }
            2_000 => nats.restart(),
            _ => {}
        }
    }
    soon("all are stored", || {
        outlet.figures().produced == (EVENTS * KEYS.len()) as u64
    });
    soon("all are heard", || {
        inlet.figures().handed >= (EVENTS * KEYS.len()) as u64
    });
    let heard = heard.lock().expect("a lock").clone();
    for key in KEYS {
        let own: Vec<&String> = heard.iter().filter(|body| body.starts_with(key)).collect();
        let expected: Vec<String> = (0..EVENTS).map(|n| format!("{key}{n}")).collect();
        assert!(own.into_iter().eq(&expected), "{key}");
    }
    let (out, read) = (outlet.figures(), inlet.figures());
    eprintln!("{out:?} {read:?}");
    assert_eq!(
        (out.failed, out.refused, out.waiting, read.lost),
        (0, 0, 0, 0)
    );
    inlet.stop();
    assert_eq!(runtime.block_on(outlet.close(Duration::from_secs(5))), 0);
}

/// A bucket was made with one copy, as when there was one server: it has several when nodes come to the cluster.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_bucket_gets_its_copies_when_there_are_several_servers() {
    let runtime = Runtime::new().expect("a runtime");
    let servers = Nats::cluster();
    runtime.block_on(async {
        let client = async_nats::connect(servers[0].url()).await;
        let streams = jetstream::new(client.expect("a client"));
        let config = || stream::Config {
            name: "few".to_owned(),
            subjects: vec!["root.key.few.>".to_owned()],
            max_messages_per_subject: 1,
            storage: stream::StorageType::Memory,
            ..stream::Config::default()
        };
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = streams.create_stream(config()).await {
            assert!(Instant::now() < deadline, "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let plan = engine::Plan {
            settings: settings(&servers[1]),
            root: "root".to_owned(),
            domain: None,
            buckets: vec![engine::Bucket {
                name: "few".to_owned(),
                age: None,
                bytes_max: None,
            }],
            queue_bytes: 1 << 20,
            is_quiet: false,
        };
        let opened = engine::open(plan, Arc::new(|_| {})).await;
        let engine = opened.expect("it is up");
        let mut stream = streams.get_stream("few").await.expect("it is there");
        let info = stream.info().await.expect("what it is");
        assert_eq!(info.config.num_replicas, 3);
        let mut written = engine.write("few", "key", b"value", None).await;
        while written != Ok(true) {
            assert!(Instant::now() < deadline, "{written:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            written = engine.write("few", "key", b"value", None).await;
        }
    });
}

/// Nobody publishes by it, so nobody waits for an answer: what remembers Idempotency-Keys has such a one.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn an_idle_connection_that_is_cut_without_a_word_is_missed() {
    let runtime = Runtime::new().expect("a runtime");
    let nats = Nats::start();
    let cable = Cable::to(nats.port());
    let url = format!("nats://{}", cable.addr());
    let plan = engine::Plan {
        settings: Settings::new(&[url], Credentials::None, Tls::default()).expect("a URL"),
        root: "root".to_owned(),
        domain: None,
        buckets: Vec::new(),
        queue_bytes: 1 << 20,
        is_quiet: true,
    };
    let (tell, news) = mpsc::channel();
    let told = move |news: engine::News| {
        let _ = tell.send(news);
    };
    let engine = runtime.block_on(engine::open(plan, Arc::new(told)));
    let next = || news.recv_timeout(PATIENCE).expect("news");
    assert_eq!(next(), engine::News::Up);
    cable.cut();
    let began = Instant::now();
    assert!(matches!(next(), engine::News::Down(_)));
    let missed = began.elapsed();
    assert!(missed < Duration::from_secs(5), "{missed:?}");
    cable.mend();
    while next() != engine::News::Up {}
    drop(engine);
}

/// A way to a server of which the first connection brings nothing to it any more from a moment on, and everything from it: so does a server that
/// waits, where it reads, for another client that takes nothing.
fn one_way(nats: &Nats, is_stuck: &Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (addr, port) = (listener.local_addr().expect("its address"), nats.port());
    let is_stuck = Arc::clone(is_stuck);
    std::thread::spawn(move || {
        for (at, near) in listener.incoming().map_while(Result::ok).enumerate() {
            let far = TcpStream::connect(("127.0.0.1", port)).expect("the server");
            let [near_too, far_too] = [&near, &far].map(|end| end.try_clone().expect("a handle"));
            std::thread::spawn(move || copy(&mut &far_too, &mut &near_too));
            let is_stuck = Arc::clone(&is_stuck);
            std::thread::spawn(move || {
                up(&near, &far, || at == 0 && is_stuck.load(Ordering::SeqCst))
            });
        }
    });
    addr
}

/// Carries bytes until it is stuck: then it holds both ends and does nothing.
fn up(mut near: &TcpStream, mut far: &TcpStream, is_stuck: impl Fn() -> bool) {
    use std::io::{Read, Write};
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = near.read(&mut buffer) {
        while is_stuck() {
            std::thread::sleep(Duration::from_millis(100));
        }
        if far.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}

/// It was ended for that, and what others said until the next one heard was lost.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_connection_by_which_the_server_took_nothing_had_brought_everything() {
    let runtime = Runtime::new().expect("a runtime");
    let nats = Nats::start();
    let is_stuck = Arc::<AtomicBool>::default();
    let url = format!("nats://{}", one_way(&nats, &is_stuck));
    let plan = engine::Plan {
        settings: Settings::new(&[url], Credentials::None, Tls::default()).expect("a URL"),
        root: "root".to_owned(),
        domain: None,
        buckets: Vec::new(),
        queue_bytes: 1 << 20,
        is_quiet: false,
    };
    let heard = Arc::<Mutex<BTreeSet<u64>>>::default();
    let (hears, (tell, news)) = (Arc::clone(&heard), mpsc::channel());
    let told = move |news: engine::News| match news {
        engine::News::Message { body, .. } => {
            let number = String::from_utf8_lossy(&body).parse().expect("a number");
            hears.lock().expect("a lock").insert(number);
        }
        other => drop(tell.send(other)),
    };
    let engine = runtime.block_on(engine::open(plan, Arc::new(told)));
    let engine = engine.expect("it is up");
    engine.subscribe(vec!["root.ear".to_owned()]);
    let until = |is_it: fn(&engine::News) -> bool| {
        while !is_it(&news.recv_timeout(PATIENCE).expect("news")) {}
    };
    until(|news| matches!(news, engine::News::Heard(_)));
    let (said, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let (says, stop) = (Arc::clone(&said), Arc::clone(&is_over));
    let url = nats.url();
    let speaker = runtime.spawn(async move {
        let client = async_nats::connect(url).await.expect("a client");
        while !stop.load(Ordering::SeqCst) {
            let number = says.fetch_add(1, Ordering::SeqCst).to_string();
            let sent = client.publish("root.ear", number.into()).await;
            sent.expect("it is sent");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        client.flush().await.expect("all is sent");
    });
    is_stuck.store(true, Ordering::SeqCst);
    let waits = engine.publish(vec![("root.nobody".to_owned(), Arc::from(&b"x"[..]))]);
    assert!(runtime.block_on(waits).is_err());
    until(|news| matches!(news, engine::News::Down(_)));
    until(|news| *news == engine::News::Up);
    // The one before is left a moment later.
    std::thread::sleep(Duration::from_secs(2));
    is_over.store(true, Ordering::SeqCst);
    runtime.block_on(speaker).expect("it speaks to its end");
    let said = said.load(Ordering::SeqCst);
    let last = || heard.lock().expect("a lock").contains(&(said - 1));
    soon("the last is heard", last);
    assert!(heard.lock().expect("a lock").iter().copied().eq(0..said));
}
