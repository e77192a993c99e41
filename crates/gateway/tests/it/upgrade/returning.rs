//! Clients that are away, or lose their connection later: the next process has what was said to them, and what rooms keep.

use super::chain::Chain;
use super::later;
use super::strangers::take_all_and_end;
use crate::cluster::all_up_of;
use crate::cluster::questions::{api, post_with};
use crate::cluster::roam::RoundRobin;
use crate::e2e::recovery::{Client, say};
use crate::harness::client::SocketIo;
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use crate::tls::pki::{Pki, Secure};
use serde_json::{Value, json};
use servers::{Cable, Redis, stock_returns};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n";
const RECOVERS: &str = "[namespaces.\"/\"]\nclient_joins = true\n\
    [namespaces.\"/\".recovery]\nlevel = \"node\"\n\
    [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
    [namespaces.\"/\".events.echo]\naction = \"reply\"\n";
const CLIENTS: usize = 24;
/// From a node to Redis.
const WAY: Duration = Duration::from_millis(150);

fn start(more: &str) -> Chain {
    Chain::start(&format!("{CONFIG}{more}\n{RECOVERS}"))
}

/// So many members of a room, by their ids.
fn members(chain: &Chain, count: usize) -> Vec<Client> {
    let clients = (0..count).map(|_| Client::new(&chain.first));
    let mut clients: Vec<Client> = clients.collect();
    clients.iter_mut().for_each(|client| client.join("den"));
    clients
}

/// So many numbers, and those that came with the last of them: an event of another shard may come behind an answer of its own.
fn hears(client: &mut Client, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    let came = eventually(PATIENCE, || {
        numbers.extend(client.hears());
        numbers.len() >= count
    });
    assert!(came, "{numbers:?}");
    numbers
}

/// What became of those who came back to a node.
fn outcomes(node: &Gateway) -> String {
    let metrics = node.metrics().into_iter();
    let returns =
        metrics.filter(|(name, count)| name.starts_with("sockeye_returns_total") && *count > 0.0);
    format!("{:?}", returns.collect::<Vec<_>>())
}

/// They have missed these numbers, and nothing else.
fn come_back(chain: &Chain, lost: Vec<(String, Value)>, missed: std::ops::Range<u64>) {
    for (id, auth) in lost {
        let mut client = Client::comes_back(&chain.first, auth);
        assert_eq!(client.sid, id);
        let missed: Vec<u64> = missed.clone().collect();
        assert_eq!(hears(&mut client, missed.len()), missed);
    }
}

/// By an RST just before the upgrade, and in silence: each of two shards has some, and some come back to the other one.
#[test]
fn who_lost_the_connection_before_comes_back_behind_any_number_of_upgrades() {
    let mut chain = start("");
    let mut speaker = Client::new(&chain.first);
    let mut clients = members(&chain, CLIENTS);
    say(&mut speaker, "den", 0..3, "");
    for client in clients.iter_mut().step_by(2) {
        assert_eq!(hears(client, 3), [0, 1, 2]);
    }
    let lost = clients.into_iter().enumerate().map(|(n, client)| {
        let id = client.sid.clone();
        let auth = if n % 4 < 2 {
            client.breaks()
        } else {
            client.lose()
        };
        (n, id, auth)
    });
    let lost: Vec<_> = lost.collect();
    sleep(Duration::from_millis(100));
    let (heard, deaf): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(n, ..)| n % 2 == 0);
    let (text, _) = chain.upgrade();
    assert!(text.contains("25 sockets can come back"), "{text}");
    say(&mut speaker, "den", 3..23, "");
    let [heard, deaf] = [heard, deaf].map(|some| some.into_iter().map(|(_, id, auth)| (id, auth)));
    let (mut heard, mut deaf): (Vec<_>, Vec<_>) = (heard.collect(), deaf.collect());
    let later = (heard.split_off(CLIENTS / 4), deaf.split_off(CLIENTS / 4));
    come_back(&chain, heard, 3..23);
    come_back(&chain, deaf, 0..23);
    chain.upgrade();
    say(&mut speaker, "den", 23..26, "");
    chain.upgrade();
    come_back(&chain, later.0, 3..26);
    come_back(&chain, later.1, 0..26);
    chain.first_ends();
}

/// They go over, and are cut when they have heard something of the next process, and when they have not.
#[test]
fn who_loses_the_connection_later_shows_an_offset_of_the_process_before() {
    let mut chain = start("");
    let mut speaker = Client::new(&chain.first);
    let mut clients = members(&chain, CLIENTS);
    say(&mut speaker, "den", 0..3, "");
    for client in &mut clients {
        assert_eq!(hears(client, 3), [0, 1, 2]);
    }
    chain.upgrade();
    let at_once = clients.split_off(CLIENTS / 2);
    let at_once = at_once.into_iter();
    let at_once = at_once.map(|client| (client.sid.clone(), client.breaks()));
    let at_once: Vec<_> = at_once.collect();
    say(&mut speaker, "den", 3..6, "");
    for client in &mut clients {
        assert_eq!(hears(client, 3), [3, 4, 5]);
    }
    chain.upgrade();
    let later = clients
        .into_iter()
        .map(|client| (client.sid.clone(), client.lose()));
    let later: Vec<_> = later.collect();
    say(&mut speaker, "den", 6..9, "");
    come_back(&chain, at_once, 3..9);
    come_back(&chain, later, 6..9);
}

/// One after the other, while processes change: whoever is told to come again does so.
#[test]
fn who_comes_back_in_the_middle_of_an_upgrade_has_missed_nothing() {
    let mut chain = start("");
    let mut speaker = Client::new(&chain.first);
    for round in 0..4 {
        let clients = members(&chain, CLIENTS);
        let ids: Vec<String> = clients.iter().map(|client| client.sid.clone()).collect();
        let lost: Vec<Value> = clients.into_iter().map(Client::breaks).collect();
        say(&mut speaker, "den", round * 10..round * 10 + 5, "");
        let upgrade = chain.begin_upgrade();
        chain.note_successor(upgrade.successor);
        let ended = AtomicBool::new(false);
        let addr = chain.first.addr;
        std::thread::scope(|scope| {
            for (id, auth) in ids.iter().zip(&lost) {
                let ended = &ended;
                scope.spawn(move || {
                    let mut client = None;
                    let came = eventually(3 * PATIENCE, || {
                        client = Client::tries(addr, auth);
                        client.is_some()
                    });
                    let mut client = client.filter(|_| came).expect("it is welcome");
                    assert_eq!(client.sid, *id, "while it went on: {ended:?}");
                    let missed: Vec<u64> = (round * 10..round * 10 + 5).collect();
                    assert_eq!(hears(&mut client, 5), missed);
                });
            }
            assert!(upgrade.succeeds());
            ended.store(true, Ordering::Relaxed);
        });
    }
}

/// Nothing was taken from the process that goes on.
#[test]
fn a_successor_that_is_killed_leaves_those_who_are_away_where_they_were() {
    let chain = start("");
    let mut speaker = Client::new(&chain.first);
    let clients = members(&chain, CLIENTS);
    let lost = clients
        .into_iter()
        .map(|client| (client.sid.clone(), client.breaks()));
    let lost: Vec<_> = lost.collect();
    say(&mut speaker, "den", 0..200, &"x".repeat(1_000));
    let mut delay = Duration::from_millis(1);
    let mut given_up = 0;
    while given_up < 5 {
        let upgrade = chain.begin_upgrade();
        let successor = upgrade.successor;
        if upgrade.killed_after(delay) {
            // It had taken over: earlier moments are looked at in another history.
            assert!(given_up > 0, "{successor} was fast");
            return;
        }
        given_up += 1;
        delay *= 3;
    }
    say(&mut speaker, "den", 200..210, "");
    come_back(&chain, lost, 0..210);
}

/// Behind many others it made a message that was too long, and the upgrade was given up.
#[test]
fn a_socket_that_is_too_large_for_a_record_is_left_behind_and_told() {
    let limits = "[limits]\nroom_name_bytes_max = \"64KiB\"\nrooms_per_socket_max = 1000\n";
    let mut chain = Chain::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 1\n{limits}{RECOVERS}"
    ));
    let rooms = |client: &mut Client, count: usize| {
        (0..count).for_each(|n| client.join(&format!("{n:060000}")));
    };
    // Their pieces fill a batch almost, and the last one as well.
    let small = (0..39).map(|_| {
        let mut client = Client::new(&chain.first);
        rooms(&mut client, 1);
        (client.sid.clone(), client.breaks())
    });
    let small: Vec<_> = small.collect();
    let mut large = Client::new(&chain.first);
    rooms(&mut large, 279);
    let (id, auth) = (large.sid.clone(), large.breaks());
    sleep(Duration::from_millis(100));
    chain.upgrade();
    assert!(chain.first.logged("they are left behind", PATIENCE));
    come_back(&chain, small, 0..0);
    assert_ne!(Client::comes_back(&chain.first, auth).sid, id);
}

/// It was told before the last word, and again by the next try.
#[test]
fn an_upgrade_that_was_given_up_told_of_sockets_that_it_left_behind() {
    let limits = "[limits]\nroom_name_bytes_max = \"64KiB\"\nrooms_per_socket_max = 1000\n";
    let mut chain = Chain::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 1\n{limits}{RECOVERS}"
    ));
    let mut large = Client::new(&chain.first);
    (0..279).for_each(|n| large.join(&format!("{n:060000}")));
    large.breaks();
    let away = |away: f64| away == 1.0;
    let parked = chain.first.metric_settles("sockeye_parked_sockets", away);
    assert!(parked.is_ok(), "{parked:?}");
    take_all_and_end(&chain, 1);
    assert!(chain.first.logged("an upgrade was given up", PATIENCE));
    let told = |chain: &Chain| {
        let log = chain.first.log();
        log.iter()
            .filter(|line| line.contains("left behind"))
            .count()
    };
    assert_eq!(told(&chain), 0);
    chain.upgrade();
    assert!(chain.first.logged("they are left behind", PATIENCE));
    assert_eq!(told(&chain), 1);
}

/// It cannot go, and comes back to its socket all the same.
#[test]
fn who_is_sent_away_comes_back_to_the_next_process_and_has_missed_nothing() {
    let pki = Pki::new();
    let mut chain = start(&pki.section(""));
    let addr = Secure::addr_of(&chain.first);
    let mut speaker = Client::new(&chain.first);
    let secure = || {
        let conn = pki.client().connect(addr);
        conn.upgraded("/socket.io/?EIO=4&transport=websocket", "")
    };
    let mut client = Client::over(secure(), json!({}));
    client.join("den");
    say(&mut speaker, "den", 0..3, "");
    assert_eq!(hears(&mut client, 3), [0, 1, 2]);
    let id = client.sid.clone();
    say(&mut speaker, "den", 3..5, "");
    chain.upgrade();
    let (mut heard, auth) = client.sent_away();
    say(&mut speaker, "den", 5..8, "");
    let mut back = Client::over(secure(), auth);
    assert_eq!(back.sid, id);
    let missed = 5_usize.saturating_sub(heard.len());
    heard.extend(hears(&mut back, missed));
    assert_eq!(heard, [3, 4, 5, 6, 7]);
}

/// There the places of this process mean nothing, and nobody is told a lie. Later builds know them.
#[test]
fn builds_that_know_nothing_of_journals_give_new_sockets_and_later_ones_give_the_old() {
    let mut chain = start("");
    let mut speaker = Client::new(&chain.first);
    let mut clients = members(&chain, 3);
    let [here, away, other] = [0; 3].map(|at| clients.remove(at));
    let away = (away.sid.clone(), away.breaks());
    say(&mut speaker, "den", 0..3, "");
    later::takes_over(&mut chain);
    say(&mut speaker, "den", 3..5, "");
    let other = (other.sid.clone(), other.breaks());
    come_back(&chain, vec![away, other], 0..5);
    let mut here = here;
    assert_eq!(hears(&mut here, 5), [0, 1, 2, 3, 4]);
    later::takes_over_as_of_old(&mut chain);
    let (id, auth) = (here.sid.clone(), here.breaks());
    let back = Client::comes_back(&chain.first, auth);
    assert_ne!(back.sid, id);
}

fn stream(chain: &Chain, last: &str) -> (RawConn, String) {
    let mut stream = RawConn::connect(chain.first.addr);
    let header = match last {
        "" => String::new(),
        last => format!("Last-Event-ID: {last}\r\n"),
    };
    stream.send(format!(
        "GET /sse?room=den HTTP/1.1\r\nHost: a\r\n{header}\r\n"
    ));
    let mut text = String::new();
    while !text.ends_with("\n\n") || !text.contains("\"history\"") {
        let more = stream.bytes_within(1, PATIENCE);
        text.push_str(&String::from_utf8_lossy(&more.expect("more of it")));
    }
    (stream, text)
}

fn history_of(text: &str) -> Vec<u64> {
    let histories = text.lines().filter(|line| line.contains("\"history\""));
    let events = histories.flat_map(|line| line.split("\"n\":").skip(1));
    let digits = events.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    digits
        .map(|digits| digits.and_then(|text| text.parse().ok()).expect("a number"))
        .collect()
}

/// Who joins, an event stream that breaks off, and one that is sent away.
#[test]
fn rooms_keep_what_they_kept_and_streams_go_on_from_their_last_id() {
    let mut chain = Chain::start(&format!(
        "{CONFIG}[namespaces.\"/\"]\nclient_joins = true\n\
         [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\nhistory = true\n"
    ));
    let mut speaker = SocketIo::connect(chain.first.addr);
    speaker.ask(1, &json!(["join", "den"]));
    let mut said = 0..;
    let mut say = |speaker: &mut SocketIo, count: usize| {
        for n in said.by_ref().take(count) {
            speaker.emit(&json!(["say", {"room": "den", "n": n}]));
        }
        // It is answered behind what it said.
        speaker.ask(2, &json!(["join", "den"]));
    };
    say(&mut speaker, 10);
    let kept = eventually(PATIENCE, || history_of(&stream(&chain, "").1).len() == 10);
    assert!(kept, "the room keeps them");
    let (away, text) = stream(&chain, "");
    let last = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("id: "));
    let last = last.expect("an id").to_owned();
    drop(away);
    let dry = chain.command(&["--dry-run"]).output().expect("a dry run");
    let told = super::chain::said(&dry);
    assert!(told.contains("10 events that 1 rooms keep"), "{told}");
    for _ in 0..3 {
        say(&mut speaker, 1);
        chain.upgrade();
        say(&mut speaker, 1);
    }
    let (_stream, text) = stream(&chain, &last);
    assert!(text.contains("\"resumed\":true"), "{text}");
    assert_eq!(history_of(&text), [10, 11, 12, 13, 14, 15]);
    let (_stream, text) = stream(&chain, "");
    assert_eq!(history_of(&text), (0..16).collect::<Vec<u64>>());
}

/// No record can have a name so long: that of a namespace, or of a room to which a program spoke. Each of them ended the whole handoff. So did a
/// room that a program named twice, because it kept the event twice.
#[test]
fn rooms_with_events_that_no_record_can_have_stopped_every_upgrade() {
    let long = format!("/{}", "n".repeat(70_000));
    let rules = |namespace: &str| {
        format!(
            "[namespaces.{namespace:?}]\nclient_joins = true\n\
             [namespaces.{namespace:?}.recovery]\nlevel = \"node\"\n\
             [namespaces.{namespace:?}.events.say]\naction = \"rooms\"\nroom_field = \"room\"\nhistory = true\n"
        )
    };
    let rules = [rules("/"), rules(&long)].concat();
    let mut chain = Chain::start(&format!("{CONFIG}{}{rules}", api()));
    let mut speaker = SocketIo::connect(chain.first.addr);
    speaker.ask(1, &json!(["join", "den"]));
    let rooms: [&str; 3] = ["den", &long, "den"];
    let said = json!({"event": "say", "rooms": rooms, "args": [{"n": 0}]});
    assert_eq!(post_with(chain.first.admin, "/v1/emit", "", &said).0, 202);
    speaker.expect("say");
    let mut ann = SocketIo::connect(chain.first.addr);
    ann.send(&format!("40{long},"));
    ann.packet_starting(&format!("40{long},{{\"sid\""));
    ann.send(&format!("42{long},1[\"join\",\"den\"]"));
    ann.send(&format!("42{long},[\"say\",{{\"room\":\"den\",\"n\":1}}]"));
    ann.send(&format!("42{long},2[\"join\",\"den\"]"));
    ann.packet_starting(&format!("43{long},2"));
    chain.upgrade();
    assert!(chain.first.logged("they are left behind", PATIENCE));
    assert_eq!(history_of(&stream(&chain, "").1), [0]);
    assert_eq!(speaker.ask(2, &json!(["join", "hall"])), json!([["hall"]]));
}

/// They are cut again and again, while process follows process.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn stock_clients_that_come_back_through_upgrades_miss_nothing() {
    const CLIENTS: u64 = 6;
    const ROUNDS: u64 = 5;
    let mut chain = start("");
    let balancer = RoundRobin::start(vec![chain.first.addr]);
    let (url, speaker) = (balancer.url(), format!("http://{}", chain.first.addr));
    let clients = std::thread::spawn(move || stock_returns(&url, &speaker, CLIENTS, ROUNDS));
    let mut upgrades = 0;
    while !clients.is_finished() {
        chain.upgrade();
        upgrades += 1;
        sleep(Duration::from_millis(300));
    }
    let told = clients.join().expect("clients");
    let wrong = json!([]);
    let cuts = CLIENTS * ROUNDS;
    let expected = json!({ "lost": cuts, "recovered": cuts, "fresh": 0, "wrong": wrong });
    assert_eq!(told, expected, "{upgrades} upgrades");
    assert!(upgrades > 2, "{upgrades} upgrades");
}

fn clustered(redis: &Redis) -> String {
    format!(
        "{CONFIG}[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n{RECOVERS}",
        redis.url()
    )
}

/// It is far from Redis: none of its words has come back when its first clients are there, and nothing says that others are silent.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn who_came_to_a_successor_before_it_had_heard_itself_was_somebody_new() {
    let redis = Redis::start();
    let cable = Cable::far(redis.port(), WAY);
    let near = clustered(&redis);
    let far = near.replace(&redis.addr(), &cable.addr());
    let mut chains = [near, far].map(|config| Chain::start(&config));
    all_up_of(&chains.each_ref().map(|chain| &chain.first));
    let mut speaker = Client::new(&chains[0].first);
    let away = members(&chains[0], 6).into_iter();
    let lost: Vec<_> = away
        .map(|client| (client.sid.clone(), client.breaks()))
        .collect();
    say(&mut speaker, "den", 0..5, "");
    chains[1].upgrade();
    let node = &chains[1].first;
    let addr = node.addr;
    std::thread::scope(|scope| {
        let come = |(id, auth)| (id, scope.spawn(move || Client::through(addr, auth)));
        let coming: Vec<_> = lost.into_iter().map(come).collect();
        for (id, client) in coming {
            let mut client = client.join().expect("it is welcome");
            assert_eq!(client.sid, id, "{}", outcomes(node));
            assert_eq!(hears(&mut client, 5), [0, 1, 2, 3, 4]);
        }
    });
}

/// The number of the node goes over, and with it whatever names a place of its journals: its sockets go to other nodes behind an upgrade, and
/// those of others come to it.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn who_comes_back_to_another_node_behind_an_upgrade_has_missed_nothing() {
    let redis = Redis::start();
    let config = clustered(&redis);
    let mut chains = [(); 2].map(|()| Chain::start(&config));
    all_up_of(&chains.each_ref().map(|chain| &chain.first));
    let mut speakers = [0, 1].map(|node: usize| Client::new(&chains[node].first));
    for round in 0..3_usize {
        let away: Vec<_> = [0, 1].map(|node: usize| members(&chains[node], 6)).into();
        let lost = away.into_iter().map(|clients| {
            let clients = clients.into_iter();
            let lost = clients.map(|client| (client.sid.clone(), client.breaks()));
            lost.collect::<Vec<_>>()
        });
        let lost: Vec<Vec<_>> = lost.collect();
        let begun = 100 * round as u64;
        say(&mut speakers[0], "den", begun..begun + 5, "");
        say(&mut speakers[1], "den", begun + 5..begun + 10, "");
        chains[round % 2].upgrade();
        say(&mut speakers[1], "den", begun + 10..begun + 15, "");
        say(&mut speakers[0], "den", begun + 15..begun + 20, "");
        for (node, lost) in lost.into_iter().enumerate() {
            for (id, auth) in lost {
                let other = &chains[1 - node].first;
                let mut client = Client::comes_back(other, auth);
                let why = || format!("round {round}, from node {node}: {}", outcomes(other));
                assert_eq!(client.sid, id, "{}", why());
                let mut missed = Vec::new();
                let came = eventually(PATIENCE, || {
                    missed.extend(client.hears());
                    missed.len() >= 20
                });
                // Each node has an order of its own.
                missed.sort_unstable();
                assert!(came, "{missed:?}");
                assert_eq!(missed, (begun..begun + 20).collect::<Vec<u64>>());
            }
        }
    }
}
