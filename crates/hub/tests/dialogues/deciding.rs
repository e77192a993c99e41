//! Clients that come back to their socket while a backend decides about them.

use crate::returning::{answers, config, connects, welcomed};
use crate::rig::Rig;
use backend::{Down, Name, Refusal, Up};
use hub::HandlerFactory;
use rules::{Action, EventRule, Line, NamespaceRules, Rules, RulesFactory, Spread, Word};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Notes what it is told, and decides when the test does.
#[derive(Default)]
struct Kitchen(Mutex<Vec<Up>>);

impl Line for Kitchen {
    fn up(&self, up: Up) -> bool {
        self.0.lock().expect("a list").push(up);
        true
    }

    fn decides_openings(&self) -> bool {
        false
    }

    fn connect_timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// What the shard told it: a socket that asks, with the number of that, and one that is gone.
#[derive(Debug, PartialEq)]
enum Heard {
    Asks(Name, u64),
    Gone(Name),
}

impl Kitchen {
    fn heard(&self) -> Vec<Heard> {
        let name = |text: &str| Name::parse(text).expect("a socket's id");
        let told = std::mem::take(&mut *self.0.lock().expect("a list"));
        let heard = told.into_iter().map(|up| match up {
            Up::Connect { number, connect } => Heard::Asks(name(&connect.socket), number),
            Up::Gone(gone) => Heard::Gone(name(&gone.socket)),
            other => panic!("{other:?}"),
        });
        heard.collect()
    }

    /// The one that asks, and no other.
    fn asked(&self) -> (Name, u64) {
        match self.heard().as_slice() {
            [Heard::Asks(name, number)] => (*name, *number),
            other => panic!("{other:?}"),
        }
    }
}

fn rig() -> (Rig, Arc<Kitchen>) {
    let namespace = NamespaceRules {
        backend: Some("kitchen".to_owned()),
        ..NamespaceRules::new(EventRule::new(Action::Backend))
    };
    let rules = Rules {
        namespaces: [("/".to_owned(), namespace)].into(),
    };
    let kitchen = Arc::<Kitchen>::default();
    let line = Arc::clone(&kitchen) as Arc<dyn Line>;
    let lines = [("kitchen".to_owned(), line)].into();
    let no_schemas = |_: &str| Err("no schemas here".to_owned());
    let factory = RulesFactory::with_backends(&rules, &no_schemas, &lines);
    let handler = factory.expect("rules without schemas").build(0);
    (Rig::new(config(), handler, 7), kitchen)
}

fn decides(
    rig: &mut Rig,
    kitchen: &Arc<Kitchen>,
    (socket, number): (Name, u64),
    decision: Result<(), Refusal>,
) {
    let line = Arc::clone(kitchen) as Arc<dyn Line>;
    let decide = Down::Decide {
        socket,
        number,
        decision,
    };
    let word = Word::new(0, line, vec![decide], Spread::Alone);
    rig.turn(|turn| turn.outside(Box::new(word)));
    rig.finish_turn();
}

/// It was carried out on the next connection of the client, of which the backend knew nothing.
#[test]
fn a_decision_that_was_on_its_way_met_the_next_connection_of_its_client() {
    let refusal = Refusal {
        message: "not you".to_owned(),
        data: None,
    };
    for late in [Ok(()), Err(refusal)] {
        let (mut rig, kitchen) = rig();
        let first = connects(&mut rig, "", "");
        let asks = kitchen.asked();
        decides(&mut rig, &kitchen, asks, Ok(()));
        let (sid, pid) = welcomed(&mut rig, first);
        rig.break_off(first);
        assert_eq!(kitchen.heard(), [Heard::Gone(asks.0)]);
        let auth = format!("{{\"pid\":\"{pid}\"}}");
        let one = connects(&mut rig, "", &auth);
        let before = kitchen.asked();
        rig.break_off(one);
        assert_eq!(kitchen.heard(), [Heard::Gone(asks.0)]);
        let two = connects(&mut rig, "", &auth);
        let now = kitchen.asked();
        assert_eq!((before.0, now.0), (asks.0, asks.0), "the same socket");
        decides(&mut rig, &kitchen, before, late);
        assert_eq!(answers(&mut rig, two), [""; 0]);
        assert_eq!(kitchen.heard(), []);
        decides(&mut rig, &kitchen, now, Ok(()));
        assert_eq!(welcomed(&mut rig, two), (sid, pid));
    }
}
