//! The exchange of HTTP on a connection: one request, its answer, and what becomes of the connection behind it.

use wire::http::{Head, Method};

/// An exchange under way, or the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchange {
    /// A head was complete once: timeouts of keep-alive apply, and that of the handshake does not.
    served: bool,
    /// Another request may follow the answer.
    keeps_alive: bool,
    /// The request is HEAD: its answer has no content.
    head_only: bool,
    /// A `KeepAlive` timer is armed.
    timed: bool,
    /// A request came since that timer was armed.
    active: bool,
    /// The answer, to a poll, has packets that exist nowhere else any more.
    unproven: bool,
}

/// How an exchange ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Another request may follow.
    pub(crate) keeps_alive: bool,
    /// Its `KeepAlive` timer is to be armed.
    pub(crate) arms: bool,
    /// The answer has no content.
    pub(crate) head_only: bool,
}

impl Exchange {
    /// Between two requests of a connection that comes from another process. `served`: it had one there.
    pub(crate) fn between(served: bool) -> Self {
        Self {
            served,
            timed: served,
            ..Self::default()
        }
    }

    /// In the middle of one that began in another process.
    pub(crate) fn under_way(keeps_alive: bool) -> Self {
        Self {
            served: true,
            active: true,
            keeps_alive,
            ..Self::default()
        }
    }

    /// A request comes.
    pub(crate) fn begin(&mut self, head: &Head<'_>) {
        self.served = true;
        self.active = true;
        // Only POST bodies are read: where it is in doubt where the next request begins, the connection ends.
        let in_step = head.method == Method::Post || !head.has_body();
        self.keeps_alive = head.keep_alive && in_step;
        self.head_only = head.method == Method::Head;
    }

    /// The connection ends with the answer.
    pub(crate) fn be_last(&mut self) {
        self.keeps_alive = false;
    }

    /// The same where it is so. No answer makes a connection live on.
    pub(crate) fn be_last_if(&mut self, is_last: bool) {
        self.keeps_alive &= !is_last;
    }

    /// Its answer is written. `may_go_on`: the hub and the peer want another request.
    pub(crate) fn end(&mut self, may_go_on: bool) -> End {
        let keeps_alive = self.keeps_alive && may_go_on;
        End {
            keeps_alive,
            arms: keeps_alive && !std::mem::replace(&mut self.timed, true),
            head_only: self.head_only,
        }
    }

    /// The `KeepAlive` timer is due; whether a request came meanwhile.
    pub(crate) fn look(&mut self) -> bool {
        self.timed = false;
        std::mem::take(&mut self.active)
    }

    /// That timer is armed again.
    pub(crate) fn wait_on(&mut self) {
        self.timed = true;
    }

    /// The answer has packets that exist nowhere else: until a request follows, nobody knows that it arrived.
    pub(crate) fn await_proof(&mut self) {
        self.unproven = true;
    }

    /// It arrived, or nobody will ever know; `true` = that was open.
    pub(crate) fn prove(&mut self) -> bool {
        std::mem::take(&mut self.unproven)
    }

    /// Nobody knows whether its packets arrived.
    pub(crate) fn is_unproven(&self) -> bool {
        self.unproven
    }

    /// A request was complete once.
    pub(crate) fn has_served(&self) -> bool {
        self.served
    }

    /// Another request may follow, as far as this one says.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::http::parse_head;

    fn begun(head: &[u8]) -> Exchange {
        let mut exchange = Exchange::default();
        exchange.begin(&parse_head(head).expect("a head").expect("a whole head"));
        exchange
    }

    #[test]
    fn a_request_whose_body_nobody_reads_is_the_last_one() {
        let bodies = [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            ("GET / HTTP/1.0\r\n\r\n", false),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
                true,
            ),
        ];
        for (head, goes_on) in bodies {
            let mut exchange = begun(head.as_bytes());
            assert_eq!(exchange.end(true).keeps_alive, goes_on, "{head}");
            assert!(!exchange.end(false).keeps_alive, "{head}");
        }
    }

    #[test]
    fn what_was_the_last_stays_it() {
        let mut exchange = begun(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        exchange.be_last_if(false);
        assert!(exchange.keeps_alive());
        exchange.be_last();
        exchange.be_last_if(false);
        assert!(!exchange.end(true).keeps_alive);
    }

    #[test]
    fn one_timer_waits_for_the_next_request() {
        let mut exchange = begun(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(exchange.end(true).arms && !exchange.end(true).arms);
        assert!(exchange.look() && !exchange.look());
        exchange.wait_on();
        assert!(!exchange.end(true).arms);
    }
}
