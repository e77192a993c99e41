//! A newcomer whose welcome waits for other nodes can read nothing, and is not slow for that, however much waits in the process.

use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use hub::config::Config;
use hub::{
    ConnectRequest, Context, Decision, Emit, Event, Form, Handler, Keeping, Keeps, SocketKey,
};
use std::sync::Arc;

/// Everybody is in one room, and gets what is kept of it.
struct Archive;

impl Handler for Archive {
    fn keeping(&self) -> Arc<Keeping> {
        let others = Form::Bare;
        let keeps = Keeps {
            others,
            ..Keeps::default()
        };
        Arc::new(Keeping::new([("/".to_owned(), Some(keeps))]))
    }

    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        let mut socket = cx.socket(socket);
        socket.join("hall").expect("a good name");
        socket.replay("hall");
    }

    fn event(&mut self, cx: &mut Context<'_>, _: SocketKey, event: Event<'_>) {
        cx.of("/")
            .to(&["hall"])
            .emit(&Emit::new("said", event.args));
    }
}

const SAID: usize = 4;

/// Two nodes of which the first has a room with almost 64 KiB of history, and is held up on its way to the other.
fn nodes() -> Nodes {
    let mut config = Config::default();
    // What waits for one newcomer is too much for the whole process.
    config.limits.waiting_bytes_max = 1;
    let mut nodes = Nodes::new(2, &config, || Box::new(Archive));
    let speaker = nodes.client(0, 0);
    for n in 0..SAID {
        let text = format!("42[\"say\",\"{n}{}\"]", "x".repeat(15_000));
        nodes.say(0, speaker, &text);
    }
    nodes.cut_off(0, true);
    nodes
}

fn has_all(text: &str) -> bool {
    let said = |n: usize| text.contains(&format!("{n}xxx"));
    text.contains("history") && (0..SAID).all(said)
}

#[test]
fn newcomers_that_waited_for_other_nodes_were_closed_as_slow() {
    let mut nodes = nodes();
    let comers = [nodes.comer(0, 1), nodes.comer(0, 1)];
    for comer in comers {
        assert_eq!(nodes.texts(0, comer), [""; 0], "it waits");
        assert!(!nodes.net(0).has_ended(comer));
    }
    nodes.cut_off(0, false);
    nodes.settle();
    for comer in comers {
        let texts = nodes.texts(0, comer);
        assert!(texts[0].starts_with("40{"), "{}", texts[0]);
        assert!(has_all(&texts[1]), "{}", &texts[1][..100]);
    }
}

/// A request of a client that polls, and the answer so far.
fn ask(nodes: &mut Nodes, method: &str, sid: &str, body: &str) -> (Client, String) {
    let request = format!(
        "{method} /socket.io/?EIO=4&transport=polling{sid} HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let client = nodes.request(0, 1, &request);
    let answer = nodes.net(0).raw(client);
    (client, String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn newcomers_that_poll_and_waited_for_other_nodes_were_closed_as_slow() {
    let mut nodes = nodes();
    let polls: Vec<Client> = (0..2)
        .map(|_| {
            let (_, open) = ask(&mut nodes, "GET", "", "");
            let sid = open.split("\"sid\":\"").nth(1).expect("a sid");
            let sid = format!("&sid={}", &sid[..20]);
            let (_, taken) = ask(&mut nodes, "POST", &sid, "40");
            assert!(taken.ends_with("ok"), "{taken}");
            let (poll, answer) = ask(&mut nodes, "GET", &sid, "");
            assert_eq!(answer, "", "it waits");
            poll
        })
        .collect();
    nodes.cut_off(0, false);
    nodes.settle();
    for poll in polls {
        let answer = nodes.net(0).raw(poll);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.contains("40{\"sid\"") && has_all(&answer),
            "{}",
            answer.len()
        );
    }
}
