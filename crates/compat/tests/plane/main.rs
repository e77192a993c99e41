//! A member of clusters, told what comes from Redis and from its hubs.

mod lists;

use compat::classic::{self, Publish};
use compat::clustered::{self, Mode, Post};
use compat::names::Names;
use compat::plane::{
    Counted, Dialect, Membership, Part, Plane, Reply, Round, Settings, Task, Told, Topic, Way,
};
use compat::verb::{Answer, Args, Event, Letter, Selection, Verb, own_uid};

const LAB: &str = "/lab";

fn names() -> Names {
    Names::new("socket.io")
}

fn plane() -> Plane {
    with(|_| ())
}

fn with(change: impl FnOnce(&mut Settings)) -> Plane {
    let mut settings = Settings {
        prefix: "socket.io".to_owned(),
        uid: own_uid(1, 1),
        membership: [Membership::Auto; 3],
        mode: Mode::Dynamic,
        python: false,
        list_bytes_max: 500,
    };
    change(&mut settings);
    let mut plane = Plane::new(settings);
    plane.enter(LAB, 0);
    let tasks = plane.take();
    plane.hears(subscribed(&tasks), true, 0);
    plane.counted(LAB, Some(Counted::default()), 0);
    assert_eq!(plane.take(), []);
    plane
}

/// What is to be listened to.
fn subscribed(tasks: &[Task]) -> Vec<Topic> {
    let topics = tasks.iter().filter_map(|task| match task {
        Task::Subscribe(topics) => Some(topics.clone()),
        _ => None,
    });
    topics.flatten().collect()
}

/// Servers of a dialect, and two nodes of ours.
fn servers(dialect: Dialect, others: u64) -> Option<Counted> {
    let mut counted = Counted([[2, 2]; 3]);
    counted.0[dialect as usize][0] += others;
    Some(counted)
}

fn broadcast(name: &str) -> Verb {
    Verb::Broadcast {
        to: Selection::default(),
        event: Event {
            name: name.to_owned(),
            args: Args::default(),
            volatile: false,
        },
    }
}

fn ask() -> Verb {
    let Verb::Broadcast { to, event } = broadcast("ev") else {
        unreachable!("it is one")
    };
    Verb::Ask {
        request: String::new(),
        to,
        event,
        timeout_ms: Some(3_000),
    }
}

fn fetch() -> Verb {
    Verb::Fetch {
        request: String::new(),
        of: Selection::default(),
    }
}

/// A classic server says something.
fn hear(plane: &mut Plane, verb: Verb, now_ms: u64) {
    let letter = Letter {
        from: "3J1VvJ".to_owned(),
        namespace: LAB.to_owned(),
        verb,
    };
    let Publish { channel, body } = classic::encode(&names(), &letter).expect("a word for it");
    let way = match letter.verb {
        Verb::Broadcast { .. } => Way::Pattern,
        _ => Way::Channel,
    };
    plane.heard(way, &channel, &body, now_ms);
}

fn round(number: u64) -> Round {
    Round { shard: 1, number }
}

fn reply(number: u64, servers: u64, told: Told) -> Task {
    Task::Reply(Reply {
        round: round(number),
        servers,
        told,
    })
}

/// The request in the one message that was written.
fn written(tasks: &[Task]) -> String {
    let [Task::Publish(Publish { channel, body })] = tasks else {
        panic!("{tasks:?}")
    };
    let names = names();
    // Our own letters are no news to us; another member reads them.
    let text = String::from_utf8_lossy(body).into_owned();
    assert!(names.read(channel).is_ok());
    let start = text.find("sky").expect("our name");
    let rest = &text[start..];
    let dash = rest.find('-').expect("a request") + start;
    let digits = text[dash + 1..].chars().take_while(char::is_ascii_digit);
    format!("{}-{}", own_uid(1, 1), digits.collect::<String>())
}

#[test]
fn eight_subscriptions_hear_a_namespace() {
    let mut plane = Plane::new(Settings {
        prefix: "socket.io".to_owned(),
        uid: own_uid(1, 1),
        membership: [Membership::Auto; 3],
        mode: Mode::Dynamic,
        python: true,
        list_bytes_max: 500,
    });
    plane.enter("/", 0);
    plane.enter("/", 1);
    let tasks = plane.take();
    let [
        Task::Subscribe(python),
        Task::Subscribe(topics),
        Task::Count(namespace),
    ] = &tasks[..]
    else {
        panic!("{tasks:?}")
    };
    assert_eq!(python[..], [Topic::Channel("socketio".to_owned())]);
    assert_eq!(topics.len(), 8);
    assert_eq!(topics[0], Topic::Pattern("socket.io#/#*".to_owned()));
    assert_eq!(namespace, "/");
}

#[test]
fn nothing_is_written_where_no_server_is() {
    let mut plane = plane();
    for now_ms in [100, 200, 300] {
        plane.say(LAB, broadcast("ev"), now_ms);
    }
    let tasks = plane.take();
    assert_eq!(
        tasks,
        [Task::Count(LAB.to_owned())],
        "and one count is enough"
    );
    plane.counted(LAB, servers(Dialect::Classic, 0), 301);
    assert_eq!(plane.take(), []);
    assert_eq!(plane.tally().written, [0; 4]);
}

#[test]
fn a_server_that_appears_is_told_the_last_second_in_order_and_once() {
    let mut plane = plane();
    for (name, now_ms) in [("old", 100), ("first", 1_300), ("second", 1_900)] {
        plane.say(LAB, broadcast(name), now_ms);
    }
    plane.take();
    plane.counted(LAB, servers(Dialect::Classic, 1), 2_000);
    plane.say(LAB, broadcast("third"), 2_001);
    let tasks = plane.take();
    let heard: Vec<_> = tasks.iter().map(event_of).collect();
    assert_eq!(heard, ["first", "second", "third"]);
    plane.counted(LAB, servers(Dialect::Classic, 2), 2_100);
    assert_eq!(plane.take(), []);
}

fn event_of(task: &Task) -> &'static str {
    let Task::Publish(Publish { body, .. }) = task else {
        panic!("{task:?}")
    };
    let text = String::from_utf8_lossy(body).into_owned();
    let all = ["old", "first", "second", "third"];
    let name = all.into_iter().find(|name| text.contains(name));
    name.expect("one of the events")
}

#[test]
fn a_namespace_is_left_a_minute_after_its_last_server() {
    let mut plane = plane();
    hear(&mut plane, broadcast("ev"), 1_000);
    assert!(matches!(
        plane.take()[..],
        [Task::Carry { question: None, .. }]
    ));
    plane.say(LAB, broadcast("ev"), 60_999);
    assert_eq!(plane.tally().written, [1, 0, 0, 0]);
    plane.tick(61_000);
    plane.say(LAB, broadcast("ev"), 61_001);
    assert_eq!(plane.tally().written, [1, 0, 0, 0]);
}

#[test]
fn acks_of_all_servers_come_to_the_hub_that_asked() {
    let mut plane = plane();
    plane.ask(LAB, round(7), ask(), 3_000, 1_000);
    assert_eq!(plane.take(), [Task::Count(LAB.to_owned())]);
    plane.counted(LAB, servers(Dialect::Classic, 2), 1_001);
    let request = written(&plane.take());
    let answers = [
        Answer::Count(1),
        Answer::Ack(Args {
            json: "1".to_owned(),
            attachments: Vec::new(),
        }),
        Answer::Count(0),
    ];
    for answer in answers {
        let to = String::new();
        let request = request.clone();
        let verb = Verb::Answer {
            request,
            to,
            answer,
        };
        hear(&mut plane, verb, 1_010);
    }
    let ack = Args {
        json: "1".to_owned(),
        attachments: Vec::new(),
    };
    let expected = [
        reply(7, 2, Told::Count(Some(1))),
        reply(7, 2, Told::Ack(ack)),
        reply(7, 2, Told::Count(Some(0))),
    ];
    assert_eq!(plane.take(), expected);
}

#[test]
fn a_question_is_answered_where_no_server_is() {
    let mut plane = plane();
    plane.ask(LAB, round(7), ask(), 3_000, 10);
    plane.ask(LAB, round(8), fetch(), 3_000, 10);
    assert_eq!(
        plane.take(),
        [
            reply(7, 1, Told::Count(Some(0))),
            reply(8, 1, Told::Sockets(Some(Vec::new())))
        ],
        "they were counted a moment ago"
    );
    plane.ask("/else", round(9), ask(), 3_000, 10);
    assert_eq!(plane.take(), [reply(9, 1, Told::Count(None))]);
}

#[test]
fn a_question_is_answered_although_redis_is_away() {
    let mut plane = plane();
    plane.ask(LAB, round(7), ask(), 3_000, 1_000);
    plane.counted(LAB, None, 1_500);
    let tasks = plane.take();
    assert_eq!(
        tasks,
        [Task::Count(LAB.to_owned()), reply(7, 1, Told::Count(None))]
    );
}

/// The answer came before the node listened, and the list was incomplete. Servers with `publishOnSpecificResponseChannel` answer in a channel of ours.
#[test]
fn a_question_waits_until_its_answer_can_be_heard() {
    let own = format!("socket.io-response#/lab#{}#", own_uid(1, 1));
    for channel in ["socket.io-response#/lab#", &own] {
        a_question_waits_for(channel);
    }
}

fn a_question_waits_for(channel: &str) {
    let mut plane = plane();
    plane.ask(LAB, round(7), fetch(), 3_000, 1_000);
    plane.take();
    let responses = || [Topic::Channel(channel.to_owned())];
    plane.hears(responses(), false, 1_000);
    plane.counted(LAB, servers(Dialect::Classic, 1), 1_001);
    plane.tick(1_100);
    assert_eq!(plane.take(), []);
    plane.hears(responses(), true, 1_200);
    written(&plane.take());
    // One that can never be heard ends with its time.
    plane.hears(responses(), false, 1_300);
    plane.ask(LAB, round(8), fetch(), 500, 1_300);
    plane.counted(LAB, servers(Dialect::Classic, 1), 1_301);
    plane.tick(1_700);
    plane.take();
    plane.tick(1_800);
    let tasks = plane.take();
    assert!(
        tasks.contains(&reply(8, 1, Told::Sockets(None))),
        "{tasks:?}"
    );
}

/// A Node server without a listener for it ended with an unhandled exception.
#[test]
fn an_event_error_for_servers_ended_node_servers() {
    let mut plane = plane();
    plane.counted(LAB, servers(Dialect::Classic, 1), 10);
    plane.take();
    let emit = |name: &str| Verb::ServerEmit {
        request: None,
        args: Args::default().named(name),
    };
    plane.say(LAB, emit("error"), 20);
    assert_eq!(plane.tally().written, [0; 4]);
    plane.ask(LAB, round(7), emit("error"), 1_000, 21);
    plane.counted(LAB, servers(Dialect::Classic, 1), 22);
    let tasks = plane.take();
    assert!(tasks.contains(&reply(7, 1, Told::Count(None))), "{tasks:?}");
    assert_eq!((plane.tally().written, plane.tally().withheld), ([0; 4], 2));
    plane.say(LAB, emit("errors"), 30);
    assert_eq!(plane.tally().written, [1, 0, 0, 0]);
}

#[test]
fn a_server_that_does_not_answer_is_told_as_silent() {
    let mut plane = plane();
    plane.ask(LAB, round(7), fetch(), 3_000, 1_000);
    plane.counted(LAB, servers(Dialect::Classic, 2), 1_001);
    written(&plane.take()[1..]);
    plane.tick(3_999);
    plane.take();
    plane.tick(4_000);
    let silent = reply(7, 2, Told::Sockets(None));
    let told: Vec<_> = plane
        .take()
        .into_iter()
        .filter(|task| *task == silent)
        .collect();
    assert_eq!(told.len(), 2);
}

#[test]
fn other_servers_get_the_sum_of_our_shards() {
    let mut plane = plane();
    let request = "qF_JZn".to_owned();
    let Verb::Ask { to, event, .. } = ask() else {
        unreachable!("it is one")
    };
    let asked = Verb::Ask {
        request: request.clone(),
        to,
        event,
        timeout_ms: Some(3_000),
    };
    hear(&mut plane, asked, 10);
    let tasks = plane.take();
    let [
        Task::Carry {
            question: Some(number),
            ..
        },
    ] = tasks[..]
    else {
        panic!("{tasks:?}")
    };
    let part = |sockets| Part::Asked { sockets, parts: 2 };
    plane.answered(number, part(1));
    assert_eq!(plane.take(), []);
    plane.answered(number, part(2));
    let count = |request| Verb::Answer {
        request,
        to: "3J1VvJ".to_owned(),
        answer: Answer::Count(3),
    };
    let answer = Letter {
        from: own_uid(1, 1),
        namespace: LAB.to_owned(),
        verb: count(request),
    };
    let expected = classic::encode(&names(), &answer).expect("a word for it");
    assert_eq!(plane.take(), [Task::Publish(expected)]);
    plane.answered(number, Part::Ack(Args::default()));
    plane.answered(number, Part::Gone);
    assert_eq!(plane.take().len(), 1, "an ack; one left without");
    plane.answered(number, Part::Ack(Args::default()));
    plane.answered(number, Part::Ack(Args::default()));
    assert_eq!(plane.take().len(), 1, "more acks than sockets are nobody's");
}

#[test]
fn an_event_for_servers_is_carried_and_answered_with_what_the_application_says() {
    let mut plane = plane();
    let args = |json: &str| Args {
        json: json.to_owned(),
        attachments: Vec::new(),
    };
    let request = Some("qF_JZn".to_owned());
    let said = args("\"ping\"");
    hear(
        &mut plane,
        Verb::ServerEmit {
            request,
            args: said,
        },
        10,
    );
    let tasks = plane.take();
    let [
        Task::Carry {
            question: Some(question),
            ..
        },
    ] = &tasks[..]
    else {
        panic!("{tasks:?}")
    };
    let (sockets, parts) = (1, 1);
    plane.answered(*question, Part::Asked { sockets, parts });
    assert_eq!(plane.take(), [], "it has not said anything yet");
    plane.answered(*question, Part::Ack(args("{\"pong\":1}")));
    let tasks = plane.take();
    let [Task::Publish(Publish { body, .. })] = &tasks[..] else {
        panic!("{tasks:?}")
    };
    let expected = r#"{"type":6,"requestId":"qF_JZn","data":{"pong":1}}"#;
    assert_eq!(String::from_utf8_lossy(body), expected);
}

#[test]
fn servers_that_are_asked_answer_for_themselves() {
    let mut plane = plane();
    let counted = Counted([[3, 1], [0, 0], [0, 0]]);
    plane.counted(LAB, Some(counted), 5);
    assert_eq!(plane.others(LAB), 2);
    let args = |json: &str| Args {
        json: json.to_owned(),
        attachments: Vec::new(),
    };
    let verb = Verb::ServerEmit {
        request: None,
        args: args("\"ping\",7"),
    };
    let round = Round {
        shard: 1,
        number: 9,
    };
    plane.ask(LAB, round, verb, 1_000, 10);
    let tasks = plane.take();
    let published = tasks.iter().find_map(|task| match task {
        Task::Publish(publish) => Some(String::from_utf8_lossy(&publish.body).into_owned()),
        _ => None,
    });
    let published = published.expect("a question");
    assert!(
        published.ends_with(r#""type":6,"data":["ping",7]}"#),
        "{published}"
    );
    let request = format!("{}-1", own_uid(1, 1));
    assert!(published.contains(&request), "{published}");
    let mut told = Vec::new();
    for n in 0..2 {
        let answer = Answer::Emitted(args(&n.to_string()));
        let (request, to) = (request.clone(), String::new());
        let verb = Verb::Answer {
            request,
            to,
            answer,
        };
        hear(&mut plane, verb, 20);
        told.extend(plane.take().into_iter().filter_map(|task| match task {
            Task::Reply(reply) => Some(reply),
            _ => None,
        }));
    }
    let expected = [0, 1].map(|n: u8| [Told::Count(Some(1)), Told::Ack(args(&n.to_string()))]);
    assert!(told.iter().all(|reply| reply.servers == 2));
    let told: Vec<Told> = told.into_iter().map(|reply| reply.told).collect();
    assert_eq!(told, expected.concat());
}

fn streams_question() -> Publish {
    let letter = Letter {
        from: "b7d40d3bd530e322".to_owned(),
        namespace: LAB.to_owned(),
        verb: Verb::Fetch {
            request: "cc38".to_owned(),
            of: Selection::default(),
        },
    };
    match clustered::encode_streams(&names(), &letter) {
        Some(Post::Publish(publish)) => publish,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_of_the_streams_adapter_is_carried_out_once_and_only_while_it_counts_us() {
    let mut plane = plane();
    let Publish { channel, body } = streams_question();
    plane.heard(Way::Pattern, &channel, &body, 10);
    let tasks = plane.take();
    let [Task::Subscribe(topics)] = &tasks[..] else {
        panic!("{tasks:?}")
    };
    assert!(topics.contains(&Topic::Channel("socket.io#/lab#".to_owned())));
    plane.heard(Way::Pattern, &channel, &body, 20);
    plane.heard(Way::Channel, &channel, &body, 20);
    assert!(matches!(
        plane.take()[..],
        [Task::Carry {
            question: Some(_),
            ..
        }]
    ));
    plane.tick(60_020);
    let tasks = plane.take();
    let leaves = |task: &Task| matches!(task, Task::Unsubscribe(_));
    assert!(tasks.iter().any(leaves), "{tasks:?}");
}

#[test]
fn no_question_of_the_streams_adapter_reaches_a_classic_server() {
    let mut plane = plane();
    plane.ask(LAB, round(7), ask(), 3_000, 1_000);
    plane.take();
    let both = Counted([[3, 2], [0, 0], [1, 0]]);
    plane.counted(LAB, Some(both), 1_001);
    let tasks = plane.take();
    let messages = tasks.iter().filter_map(|task| match task {
        Task::Publish(publish) => Some(publish.channel.as_str()),
        _ => None,
    });
    assert_eq!(messages.collect::<Vec<_>>(), ["socket.io-request#/lab#"]);
    assert!(tasks.contains(&reply(7, 2, Told::Count(None))), "{tasks:?}");
    assert_eq!(plane.tally().withheld, 1);
}

#[test]
fn rooms_with_channels_of_their_own_are_heard_while_there_is_a_sharded_server() {
    let mut plane = plane();
    let topic = |room: &str| Topic::Sharded(format!("socket.io#/lab#{room}#"));
    plane.room(LAB, "r1", true);
    plane.room(LAB, "Zc7f0ch5oTBIRcgBAAAA", true);
    assert_eq!(plane.take(), [], "nobody speaks there");
    plane.counted(LAB, servers(Dialect::Sharded, 1), 1_000);
    assert_eq!(plane.take(), [Task::Subscribe(vec![topic("r1")])]);
    // A second hub has members, and the first has none any more.
    plane.room(LAB, "r1", true);
    plane.room(LAB, "r1", false);
    plane.room(LAB, "r2", true);
    assert_eq!(plane.take(), [Task::Subscribe(vec![topic("r2")])]);
    plane.room(LAB, "r1", false);
    assert_eq!(plane.take(), [Task::Unsubscribe(vec![topic("r1")])]);
    plane.tick(61_000);
    let tasks = plane.take();
    assert_eq!(tasks[0], Task::Unsubscribe(vec![topic("r2")]));
}

/// Clients make namespaces by connecting.
#[test]
fn a_namespace_that_is_left_is_not_heard_any_more() {
    let mut plane = plane();
    plane.enter("/dyn-1", 10);
    let entered = subscribed(&plane.take());
    plane.hears(entered.clone(), true, 10);
    plane.ask("/dyn-1", round(7), fetch(), 3_000, 11);
    plane.leave("/dyn-1");
    let tasks = plane.take();
    assert!(tasks.contains(&Task::Unsubscribe(entered)), "{tasks:?}");
    assert!(
        tasks.contains(&reply(7, 1, Told::Sockets(None))),
        "{tasks:?}"
    );
    assert_eq!(plane.known("/dyn-1"), [0; 3]);
    plane.counted("/dyn-1", servers(Dialect::Classic, 1), 12);
    assert_eq!(plane.take(), []);
}

#[test]
fn a_node_that_is_no_member_neither_listens_nor_writes() {
    let mut plane = with(|settings| settings.membership = [Membership::Never; 3]);
    plane.say(LAB, broadcast("ev"), 100);
    plane.take();
    plane.counted(LAB, servers(Dialect::Classic, 5), 101);
    plane.say(LAB, broadcast("ev"), 102);
    plane.ask(LAB, round(7), ask(), 3_000, 103);
    assert_eq!(plane.take(), [reply(7, 1, Told::Count(Some(0)))]);
}

#[test]
fn garbage_is_counted_and_changes_nothing() {
    let mut plane = plane();
    for seed in 0..5_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let body: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        let channels = [
            "socket.io#/lab#",
            "socket.io-request#/lab#",
            "socket.io-response#/lab#",
            "x",
        ];
        let ways = [Way::Pattern, Way::Channel, Way::Sharded];
        let (channel, way) = (channels[random.usize(..4)], ways[random.usize(..3)]);
        plane.heard(way, channel, &body, seed);
    }
    assert_eq!(plane.tally().taken, [0; 4]);
    let refused: u64 = plane.tally().refused.iter().sum();
    assert!(refused > 3_000, "{refused}");
    plane.say(LAB, broadcast("ev"), 5_000);
    assert_eq!(plane.tally().written, [0; 4]);
}

/// One of its two subscriptions was counted, the other was not yet: for a minute everything was written for a server that was none.
#[test]
fn a_node_of_ours_that_comes_is_no_server() {
    let half = Counted([[1, 0], [4, 4], [0, 0]]);
    let whole = Counted([[1, 1], [5, 4], [0, 0]]);
    assert!(half.has_more([0; 3]));
    assert!(!half.has_more([1, 0, 0]));
    assert!(!whole.at_least(half).has_more([0; 3]));
    let server = Counted([[2, 1], [4, 4], [0, 0]]);
    assert_eq!(server.at_least(half), server);
}
