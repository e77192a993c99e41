//! The order of what the gateway is given, and the pairs that are compared.

use super::*;
use crate::normal::Rule;
use crate::packet::Reader;
use crate::report::Counts;

const REAL: Side = Side::Real;
const OWN: Side = Side::Own;

struct Table {
    play: Play,
    now_ms: u64,
}

fn packet(text: &str) -> Packet {
    Reader::default()
        .text(text)
        .expect("a packet")
        .expect("a whole one")
}

impl Table {
    /// Two sessions in the namespace `/`.
    fn set() -> Self {
        let normal = Normal::new(Rule::ALL, Vec::new(), Vec::new());
        let mut table = Self {
            play: Play::new(normal, 1_000, false),
            now_ms: 0,
        };
        for session in [1, 2] {
            table.play.opened(session);
            table.client(session, "0");
            table.said(REAL, session, &format!(r#"0{{"sid":"real-{session}"}}"#));
            table.said(
                OWN,
                session,
                &format!(r#"0{{"sid":"own-{session}","pid":"p"}}"#),
            );
        }
        table.deeds();
        table
    }

    fn client(&mut self, session: u64, text: &str) {
        self.play.client(self.now_ms, session, packet(text));
    }

    fn said(&mut self, side: Side, session: u64, text: &str) {
        self.play
            .said(self.now_ms, 1_790_000_000.0, side, session, &packet(text));
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.play.pass_time(self.now_ms);
    }

    fn deeds(&mut self) -> Vec<(u64, String)> {
        let deeds = self.play.take_deeds().into_iter();
        let told = deeds.map(|(session, deed)| match deed {
            Deed::Send(packet) => (session, String::from_utf8(packet.to_text()).expect("text")),
            Deed::Close => (session, "close".to_owned()),
        });
        told.collect()
    }

    fn counts(&mut self, event: &str) -> Counts {
        *self.play.report.counts(event)
    }
}

#[test]
fn what_the_running_server_had_answered_is_answered_before_later_packets_go() {
    let mut table = Table::set();
    table.client(1, r#"21["join","a"]"#);
    assert_eq!(table.deeds(), [(1, r#"421["join","a"]"#.to_owned())]);
    // Not answered yet: nothing follows from it.
    table.client(2, r#"2["say","a"]"#);
    assert_eq!(table.deeds().len(), 1);
    table.said(REAL, 1, r#"31["ok"]"#);
    table.client(2, r#"2["say","b"]"#);
    assert_eq!(table.deeds(), []);
    table.said(OWN, 1, r#"31["ok"]"#);
    assert_eq!(table.deeds(), [(2, r#"42["say","b"]"#.to_owned())]);
    assert_eq!(
        table.counts("ack of join"),
        Counts {
            equal: 1,
            ..Counts::default()
        }
    );
}

#[test]
fn an_answer_that_never_comes_holds_others_up_for_a_moment_only() {
    let mut table = Table::set();
    table.client(1, r#"21["join","a"]"#);
    table.said(REAL, 1, r#"31["ok"]"#);
    table.client(2, r#"2["say","b"]"#);
    table.deeds();
    table.pass(400);
    assert_eq!(table.deeds(), []);
    table.pass(100);
    assert_eq!(table.deeds().len(), 1);
    assert_eq!(table.play.report.late, 1);
    table.pass(1_000);
    assert_eq!(
        table.counts("ack of join"),
        Counts {
            missing: 1,
            ..Counts::default()
        }
    );
    assert!(table.play.owed.is_empty() && table.play.early.is_empty());
}

#[test]
fn the_gateway_may_be_faster_than_the_running_server() {
    let mut table = Table::set();
    table.client(1, r#"21["join","a"]"#);
    table.said(OWN, 1, r#"31["ok"]"#);
    table.said(REAL, 1, r#"31["ok"]"#);
    table.client(2, r#"2["say","b"]"#);
    assert_eq!(table.deeds().len(), 2);
    assert!(table.play.debts.is_empty());
}

#[test]
fn ids_of_sockets_are_those_of_each_side() {
    let mut table = Table::set();
    table.said(REAL, 1, r#"2["hi","real-2",{"to":"real-1"}]"#);
    table.said(OWN, 1, r#"2["hi","own-2",{"to":"own-1"}]"#);
    table.said(REAL, 1, r#"2["hi","real-2"]"#);
    table.said(OWN, 1, r#"2["hi","own-1"]"#);
    table.pass(2_000);
    assert_eq!(
        table.counts("hi"),
        Counts {
            equal: 1,
            different: 1,
            ..Counts::default()
        }
    );
}

#[test]
fn answers_of_a_client_go_to_the_question_that_the_gateway_asked() {
    let mut table = Table::set();
    table.said(REAL, 1, r#"27["sure?",1]"#);
    table.said(OWN, 1, r#"20["sure?",1]"#);
    table.client(1, r#"37["yes"]"#);
    assert_eq!(table.deeds(), [(1, r#"430["yes"]"#.to_owned())]);
    // The gateway asks later than the client answers, or never.
    table.said(REAL, 1, r#"28["sure?",2]"#);
    table.client(1, r#"38["no"]"#);
    assert_eq!(table.deeds(), []);
    table.said(OWN, 1, r#"21["sure?",2]"#);
    assert_eq!(table.deeds(), [(1, r#"431["no"]"#.to_owned())]);
    table.said(REAL, 1, r#"29["sure?",3]"#);
    table.client(1, r#"39["no"]"#);
    table.pass(1_100);
    assert_eq!(table.deeds(), []);
    assert_eq!(table.play.report.unplayed.values().sum::<u64>(), 1);
    assert_eq!(
        table.counts("sure?"),
        Counts {
            equal: 2,
            missing: 1,
            ..Counts::default()
        }
    );
}

#[test]
fn a_namespace_that_the_gateway_refuses_is_a_difference_and_gets_nothing_more() {
    let mut table = Table::set();
    table.client(1, "0/admin,");
    table.said(REAL, 1, r#"0/admin,{"sid":"real-a"}"#);
    table.said(OWN, 1, r#"4/admin,{"message":"Invalid namespace"}"#);
    table.client(1, r#"2/admin,["x"]"#);
    assert_eq!(table.deeds(), [(1, "40/admin,".to_owned())]);
    table.pass(1_000);
    let (asked, refused) = (table.counts("CONNECT"), table.counts("CONNECT_ERROR"));
    assert_eq!((asked.missing, refused.additional), (1, 1));
    assert_eq!(table.play.report.unplayed.values().sum::<u64>(), 1);
    // It may be asked again.
    table.client(1, "0/admin,");
    assert_eq!(table.deeds().len(), 1);
}

#[test]
fn the_end_of_a_client_waits_a_moment_for_what_the_gateway_owes_it() {
    let mut table = Table::set();
    table.said(REAL, 1, r#"2["bye"]"#);
    table.play.client_gone(table.now_ms, 1);
    table.client(2, r#"2["say","b"]"#);
    assert_eq!(table.deeds(), []);
    table.said(OWN, 1, r#"2["bye"]"#);
    assert_eq!(
        table.deeds(),
        [(1, "close".to_owned()), (2, r#"42["say","b"]"#.to_owned())]
    );
    table.said(REAL, 2, r#"2["bye"]"#);
    table.play.client_gone(table.now_ms, 2);
    table.pass(END_MS);
    assert_eq!(table.deeds(), [(2, "close".to_owned())]);
    assert_eq!(
        table.counts("bye"),
        Counts {
            equal: 1,
            missing: 1,
            ..Counts::default()
        }
    );
    assert_eq!(table.play.report.played, 0);
    assert!(table.play.sessions.is_empty());
    // Words of and to those who have gone mean nothing.
    table.client(1, r#"2["say","b"]"#);
    table.said(OWN, 1, r#"2["late"]"#);
    assert_eq!(table.deeds(), []);
}

#[test]
fn a_session_that_cannot_be_compared_is_counted_and_ends_no_other() {
    let mut table = Table::set();
    table.client(1, r#"21["join"]"#);
    table.said(REAL, 1, r#"31[]"#);
    table.play.skipped(1, "no packets of Socket.IO");
    table.client(2, r#"2["say"]"#);
    let deeds = table.deeds();
    assert_eq!(
        deeds[1..],
        [(1, "close".to_owned()), (2, r#"42["say"]"#.to_owned())]
    );
    table.play.copy_ended(table.now_ms, 2);
    table.pass(1_000);
    assert_eq!(table.play.report.skipped.values().sum::<u64>(), 2);
    assert_eq!(table.play.report.differences(), 0);
    assert!(!table.play.report.is_clean());
}

#[test]
fn clients_that_speak_at_once_have_no_order_and_one_client_has() {
    for (clients, reordered) in [([1, 1], 1), ([1, 2], 0)] {
        let mut table = Table::set();
        table.pass(BURST_MS);
        for (n, client) in clients.into_iter().enumerate() {
            table.client(client, &format!(r#"2["say",{n}]"#));
        }
        for (side, n) in [(REAL, 0), (REAL, 1), (OWN, 1), (OWN, 0)] {
            table.said(side, 1, &format!(r#"2["said",{n}]"#));
        }
        assert_eq!(table.counts("said").reordered, reordered, "{clients:?}");
        // A moment later another one speaks for itself.
        table.pass(BURST_MS);
        table.client(2, r#"21["pair"]"#);
        for (side, n) in [(OWN, 1), (OWN, 0), (REAL, 0), (REAL, 1)] {
            table.said(side, 1, &format!(r#"2["pair",{n}]"#));
        }
        assert_eq!(table.counts("pair").reordered, 1);
        // While another one waits for its answer, nobody knows who brought something about.
        table.pass(BURST_MS);
        table.client(1, r#"2["pair"]"#);
        for (side, n) in [(OWN, 3), (OWN, 2), (REAL, 2), (REAL, 3)] {
            table.said(side, 1, &format!(r#"2["pair",{n}]"#));
        }
        assert_eq!(table.counts("pair").reordered, 1);
    }
}

#[test]
fn both_may_end_a_session_and_the_gateway_may_be_faster() {
    let mut table = Table::set();
    table.said(OWN, 1, "1");
    table.play.copy_ended(table.now_ms, 1);
    table.pass(400);
    table.said(REAL, 1, "1");
    table.play.client_gone(table.now_ms, 1);
    table.pass(5_000);
    assert_eq!(table.counts("DISCONNECT").equal, 1);
    assert!(table.play.report.is_clean(), "{:?}", table.play.report);
}

/// Each waited for a whole second, one after the other, and everybody behind them.
#[test]
fn clients_that_leave_together_wait_together() {
    let mut table = Table::set();
    for session in [1, 2] {
        table.said(REAL, session, r#"2["only there"]"#);
        table.play.client_gone(table.now_ms, session);
    }
    table.pass(END_MS);
    assert_eq!(table.deeds().len(), 2);
    assert_eq!(table.counts("only there").missing, 2);
}

#[test]
fn ids_of_sockets_that_have_gone_or_are_not_known_yet_are_those_of_each_side() {
    let mut table = Table::set();
    table.play.client_gone(table.now_ms, 2);
    assert_eq!(table.deeds(), [(2, "close".to_owned())]);
    table.said(REAL, 1, r#"2["left","real-2"]"#);
    table.said(OWN, 1, r#"2["left","own-2"]"#);
    assert_eq!(table.counts("left").equal, 1);
    // A newcomer's own CONNECT comes later than the news of it.
    table.play.opened(3);
    table.client(3, "0");
    table.said(REAL, 1, r#"2["came",{"real-3":"real-3"}]"#);
    table.said(OWN, 1, r#"2["came",{"own-3":"own-3"}]"#);
    table.said(REAL, 3, r#"0{"sid":"real-3"}"#);
    table.said(OWN, 3, r#"0{"sid":"own-3"}"#);
    table.pass(1_000);
    assert_eq!(
        table.counts("came"),
        Counts {
            equal: 1,
            ..Counts::default()
        }
    );
    table.pass(5_000);
    assert!(table.play.gone.is_empty());
}
