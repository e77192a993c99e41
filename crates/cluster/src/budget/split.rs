//! How a budget is divided among nodes: everybody keeps what is in use, who was refused something comes next, and what is left goes
//! to all, more of it to those who use more. It depends on nothing but what stands on the board, so nodes that see the same
//! agree.

use super::Key;

/// A node's part of a key, and its wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The amount it keeps in any case.
    pub used: u32,
    /// The amount it would use, if it might: `used` or more.
    pub wanted: u32,
    /// It takes part. A node that has not heard of the key may use up to `used`, and nobody else may.
    pub is_told: bool,
}

impl Claim {
    fn need(self) -> u64 {
        u64::from(self.wanted.saturating_sub(self.used))
    }
}

/// The share of the node at `me`. Claims stand in the order of the nodes' numbers.
pub fn split(key: Key, budget: u32, claims: &[Claim], me: usize) -> u32 {
    let used: u64 = claims.iter().map(|claim| u64::from(claim.used)).sum();
    let spare = u64::from(budget).saturating_sub(used);
    let Some(own) = claims.get(me).filter(|_| spare > 0) else {
        return claims.get(me).map_or(0, |own| own.used);
    };
    // Single pieces go round: no node is the first one of all keys.
    let start = (key.holder % claims.len().max(1) as u64) as usize;
    let needed = fill(spare, claims, start);
    let left = spare - needed.iter().sum::<u64>();
    let more = needed[me] + spread(left, claims, &needed, start)[me];
    own.used
        .saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
}

/// Gives everybody the same until it needs no more.
fn fill(mut spare: u64, claims: &[Claim], start: usize) -> Vec<u64> {
    let mut given = vec![0; claims.len()];
    loop {
        let open = |given: &[u64], at: usize| claims[at].is_told && claims[at].need() > given[at];
        let hungry = (0..claims.len()).filter(|at| open(&given, *at)).count() as u64;
        if hungry == 0 || spare == 0 {
            return given;
        }
        let each = spare / hungry;
        for at in (0..claims.len()).map(|n| (n + start) % claims.len()) {
            if open(&given, at) {
                let piece = each.max(1).min(claims[at].need() - given[at]).min(spare);
                given[at] += piece;
                spare -= piece;
            }
        }
    }
}

/// Gives all of it away, in proportion to what each will use.
fn spread(left: u64, claims: &[Claim], given: &[u64], start: usize) -> Vec<u64> {
    let weights = claims.iter().zip(given);
    let weights: Vec<u64> = weights
        .map(|(claim, given)| match claim.is_told {
            true => u64::from(claim.used) + given + 1,
            false => 0,
        })
        .collect();
    let all: u64 = weights.iter().sum();
    if all == 0 {
        return weights;
    }
    let mut pieces: Vec<u64> = weights
        .iter()
        .map(|weight| (u128::from(left) * u128::from(*weight) / u128::from(all)) as u64)
        .collect();
    let mut rest = left - pieces.iter().sum::<u64>();
    // Fewer than there are nodes that take part.
    for at in (0..claims.len()).map(|n| (n + start) % claims.len()) {
        if rest > 0 && claims[at].is_told {
            pieces[at] += 1;
            rest -= 1;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(used: u32, wanted: u32) -> Claim {
        Claim {
            used,
            wanted,
            is_told: true,
        }
    }

    fn untold(share: u32) -> Claim {
        Claim {
            used: share,
            wanted: share,
            is_told: false,
        }
    }

    fn shares(budget: u32, claims: &[Claim]) -> Vec<u32> {
        let key = Key { kind: 0, holder: 0 };
        (0..claims.len())
            .map(|me| split(key, budget, claims, me))
            .collect()
    }

    #[test]
    fn who_uses_all_gets_most_and_the_others_keep_a_piece() {
        assert_eq!(
            shares(20, &[claim(6, 6), claim(0, 0), claim(0, 0)]),
            [17, 2, 1]
        );
        // Refused there, and wanted: nothing is left for those who want nothing.
        assert_eq!(
            shares(20, &[claim(6, 26), claim(0, 0), claim(0, 0)]),
            [20, 0, 0]
        );
        assert_eq!(
            shares(20, &[claim(6, 26), claim(1, 9), claim(0, 1)]),
            [12, 7, 1]
        );
        // Nothing is left, or less than that.
        assert_eq!(shares(20, &[claim(15, 20), claim(5, 6)]), [15, 5]);
        assert_eq!(shares(20, &[claim(15, 20), claim(9, 9)]), [15, 9]);
    }

    #[test]
    fn what_an_untold_node_may_use_is_nobody_elses() {
        assert_eq!(shares(20, &[claim(6, 30), untold(6), untold(6)]), [8, 6, 6]);
    }

    #[test]
    fn shares_are_the_budget_whatever_is_claimed() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let budget = rng.u32(1..200);
            let claims: Vec<Claim> = (0..rng.usize(1..9))
                .map(|_| {
                    let used = rng.u32(..40);
                    Claim {
                        used,
                        wanted: used + rng.u32(..40) * rng.u32(..2),
                        is_told: rng.u8(..4) > 0,
                    }
                })
                .collect();
            let key = Key {
                kind: 1,
                holder: rng.u64(..),
            };
            let shares = (0..claims.len()).map(|me| split(key, budget, &claims, me));
            let shares: Vec<u32> = shares.collect();
            let used: u32 = claims.iter().map(|claim| claim.used).sum();
            let any_told = claims.iter().any(|claim| claim.is_told);
            let expected = match any_told {
                true => budget.max(used),
                false => used,
            };
            assert_eq!(
                shares.iter().sum::<u32>(),
                expected,
                "{budget} {claims:?} {shares:?}"
            );
            for (share, claim) in shares.iter().zip(&claims) {
                assert!(*share >= claim.used, "{budget} {claims:?} {shares:?}");
            }
        }
    }
}
