//! Owns what is done to each delivery: a seeded plan, so that a run that went wrong can be had
//! again with the same faults.

use std::time::Duration;

/// Shares of deliveries that suffer something, and of acknowledgements that are never given.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub drop: f64,
    pub duplicate: f64,
    /// Written behind the member's next message.
    pub overtaken: f64,
    pub delay: f64,
    pub delay_min: Duration,
    pub delay_max: Duration,
    pub ack_drop: f64,
    /// After so many messages of its room a member's connection is cut, by member number.
    pub cut: Option<(usize, u64)>,
}

/// What happens to one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Send,
    Drop,
    Twice,
    Overtaken,
    After(Duration),
}

impl Plan {
    /// A server that behaves.
    pub const HONEST: Plan = Plan {
        seed: 0,
        drop: 0.0,
        duplicate: 0.0,
        overtaken: 0.0,
        delay: 0.0,
        delay_min: Duration::ZERO,
        delay_max: Duration::ZERO,
        ack_drop: 0.0,
        cut: None,
    };

    /// Of the delivery of message `number` to `member`.
    pub fn fate(&self, member: usize, number: u64) -> Fate {
        let roll = self.roll(1, member, number);
        let mut below = self.drop;
        if roll < below {
            return Fate::Drop;
        }
        below += self.duplicate;
        if roll < below {
            return Fate::Twice;
        }
        below += self.overtaken;
        if roll < below {
            return Fate::Overtaken;
        }
        below += self.delay;
        if roll < below {
            let span = self.delay_max.saturating_sub(self.delay_min);
            return Fate::After(self.delay_min + span.mul_f64(self.roll(2, member, number)));
        }
        Fate::Send
    }

    pub fn drops_ack(&self, connection: usize, number: u64) -> bool {
        self.roll(3, connection, number) < self.ack_drop
    }

    /// 0 to 1, by SplitMix64 over all that makes the question.
    fn roll(&self, question: u64, who: usize, number: u64) -> f64 {
        let mut state = self.seed;
        for part in [question, who as u64, number] {
            state = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
            state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state ^= state >> 31;
        }
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}
