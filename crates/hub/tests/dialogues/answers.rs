//! Half a million answers of another node that broadcasts with ack wait for at once.

use crate::heard::Heard;
use crate::nodes::Obedient;
use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use hub::config::Config;

const CLIENTS: usize = 1_000;
const ROUNDS: usize = 500;
const OUTSTANDING: usize = CLIENTS * ROUNDS;
/// The cost of an answer that is waited for.
const BYTES_EACH: usize = 100;

/// Bytes that the hubs of a node keep for rounds.
fn kept(nodes: &mut Nodes, node: usize) -> usize {
    let of_hub = |at: usize, nodes: &mut Nodes| {
        let parts = nodes.net(node).hub(at).memory();
        let rounds =
            |(name, bytes): (&str, usize)| matches!(name, "rounds" | "timers").then_some(bytes);
        parts.into_iter().filter_map(rounds).sum::<usize>()
    };
    of_hub(0, nodes) + of_hub(1, nodes)
}

/// Answers to all questions that a client has got.
fn answers(nodes: &mut Nodes, client: Client) -> Vec<String> {
    let texts = nodes.texts(1, client);
    let id = |text: &String| {
        let (id, _) = text.strip_prefix("42")?.split_once('[')?;
        Some(format!("43{id}[]"))
    };
    texts
        .iter()
        .map(|text| id(text).expect("a question"))
        .collect()
}

#[test]
fn half_a_million_answers_of_another_node_are_counted_and_cost_bounded_memory() {
    let handler = Obedient::default();
    let mut nodes = Nodes::new(2, &Config::default(), || Box::new(handler.clone()));
    let asker = nodes.client(0, 0);
    (0..2).for_each(|node| nodes.net(node).checks = false);
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|n| {
            let client = nodes.client(1, n % 2);
            nodes.say(1, client, "42[\"join\",\"room\"]");
            client
        })
        .collect();
    let before = kept(&mut nodes, 1);
    for _ in 0..ROUNDS {
        nodes.say(0, asker, "42[\"collect\",\"room\"]");
    }
    assert_eq!(handler.0.heard(), [], "everybody is waited for");
    let each = (kept(&mut nodes, 1) - before) / OUTSTANDING;
    assert!(each <= BYTES_EACH, "{each} bytes for each");
    assert!(kept(&mut nodes, 0) < OUTSTANDING, "the asker counts");
    // A half answers, a quarter goes, a quarter says nothing.
    for (n, client) in clients.iter().enumerate() {
        match n / 2 % 4 {
            0 | 1 => {
                let answers = answers(&mut nodes, *client).into_iter();
                nodes.net(1).say_all(*client, answers);
            }
            2 => nodes.net(1).break_off(*client),
            _ => {}
        }
    }
    nodes.settle();
    nodes.pass(1_000);
    let heard = handler.0.heard();
    assert_eq!(heard.len(), ROUNDS);
    for heard in heard {
        let Heard::Collected(result) = heard else {
            panic!("a result, not {heard:?}")
        };
        let counts = [
            result.acked,
            result.gone,
            result.timed_out,
            result.undelivered,
        ];
        assert_eq!(counts, [500, 250, 250, 0]);
        assert_eq!((result.answers.len(), result.complete), (500, false));
    }
    nodes.pass(60_000);
    let left = kept(&mut nodes, 1);
    assert!(
        left < before + OUTSTANDING,
        "{left} bytes are left of {before}"
    );
}
