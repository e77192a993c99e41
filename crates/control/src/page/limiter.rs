//! How many pages one address may ask for, and how many calls one API key may make: a fixed window each, told in the `RateLimit`
//! headers that Express' limiter made common (draft-ietf-httpapi-ratelimit-headers-03).

use hub::config::Rate;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Addresses remembered. Beyond it newcomers are not counted: pages cost little, memory is what must not grow.
const ADDRESSES_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRate {
    pub rate: Rate,
    /// This machine's own requests count too.
    pub loopback: bool,
}

#[derive(Debug)]
pub(crate) struct Limiter {
    settings: PageRate,
    windows: Windows<IpAddr>,
}

/// The use of one rate by each of them.
#[derive(Debug)]
pub(crate) struct Windows<K> {
    rate: Rate,
    windows: Mutex<HashMap<K, Window>>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    ends: Instant,
    used: u32,
}

/// Where an address stands after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    limit: u32,
    remaining: u32,
    reset: Duration,
    pub(crate) is_over: bool,
}

impl Limiter {
    pub(crate) fn new(settings: PageRate) -> Self {
        Self {
            settings,
            windows: Windows::new(settings.rate),
        }
    }

    /// Counts a request; `None`: this address is not counted.
    pub(crate) fn count(&self, address: IpAddr, now: Instant) -> Option<Standing> {
        if address.is_loopback() && !self.settings.loopback {
            return None;
        }
        self.windows.count(network(address), now)
    }
}

impl<K: Hash + Eq> Windows<K> {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            windows: Mutex::default(),
        }
    }

    /// What is used of windows that have not ended, and how long they last.
    pub(crate) fn used(&self, now: Instant) -> Vec<(K, u32, Duration)>
    where
        K: Clone,
    {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let open = windows.iter().filter(|(_, window)| window.ends > now);
        let used = open.map(|(key, window)| (key.clone(), window.used, window.ends - now));
        used.collect()
    }

    /// So much of a window is used.
    pub(crate) fn go_on(&self, key: K, (used, left): (u32, Duration), now: Instant) {
        let ends = now + left.min(self.rate.per);
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.insert(key, Window { ends, used });
    }

    /// Counts a request; `None`: too many are remembered already.
    pub(crate) fn count(&self, key: K, now: Instant) -> Option<Standing> {
        let Rate { events, per, .. } = self.rate;
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= ADDRESSES_MAX && !windows.contains_key(&key) {
            windows.retain(|_, window| window.ends > now);
            if windows.len() >= ADDRESSES_MAX {
                return None;
            }
        }
        let fresh = Window {
            ends: now + per,
            used: 0,
        };
        let window = windows.entry(key).or_insert(fresh);
        if window.ends <= now {
            *window = fresh;
        }
        let is_over = window.used >= events;
        window.used = window.used.saturating_add(1);
        Some(Standing {
            limit: events,
            remaining: events.saturating_sub(window.used),
            reset: window.ends.saturating_duration_since(now),
            is_over,
        })
    }
}

/// A customer of IPv6 has a whole /64 (RFC 6177), of IPv4 one address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(prefix).into()
        }
        v4 => v4,
    }
}

impl Standing {
    /// Whole seconds, rounded up: who comes back then is welcome.
    pub(crate) fn reset_seconds(&self) -> u64 {
        self.reset.as_secs() + u64::from(self.reset.subsec_nanos() > 0)
    }

    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let reset = self.reset_seconds();
        for (name, value) in [
            ("ratelimit-limit", u64::from(self.limit)),
            ("ratelimit-remaining", u64::from(self.remaining)),
            ("ratelimit-reset", reset),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
        }
        if self.is_over {
            headers.insert(RETRY_AFTER, HeaderValue::from(reset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(events: u32, loopback: bool) -> Limiter {
        let per = Duration::from_secs(900);
        Limiter::new(PageRate {
            rate: Rate::new(events, per),
            loopback,
        })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("address")
    }

    #[test]
    fn a_window_fills_and_begins_anew() {
        let (limiter, start) = (limiter(2, false), Instant::now());
        let ada = address("192.0.2.1");
        let at = |seconds| {
            limiter
                .count(ada, start + Duration::from_secs(seconds))
                .expect("counted")
        };
        let standing = |remaining, reset, is_over| Standing {
            limit: 2,
            remaining,
            reset: Duration::from_secs(reset),
            is_over,
        };
        assert_eq!(at(0), standing(1, 900, false));
        assert_eq!(at(10), standing(0, 890, false));
        assert_eq!(at(20), standing(0, 880, true));
        assert_eq!(at(899), standing(0, 1, true));
        assert_eq!(at(900), standing(1, 900, false));
        assert!(
            !limiter
                .count(address("192.0.2.2"), start)
                .expect("counted")
                .is_over
        );
    }

    #[test]
    fn headers_have_the_names_and_units_of_express() {
        let mut headers = HeaderMap::new();
        let standing = Standing {
            limit: 100,
            remaining: 0,
            reset: Duration::from_millis(1_001),
            is_over: true,
        };
        standing.write(&mut headers);
        for (name, value) in [
            ("RateLimit-Limit", "100"),
            ("RateLimit-Remaining", "0"),
            ("RateLimit-Reset", "2"),
            ("Retry-After", "2"),
        ] {
            assert_eq!(headers.get(name).expect(name), value);
        }
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_loopback_is_free() {
        let (limiter, now) = (limiter(1, false), Instant::now());
        assert!(
            !limiter
                .count(address("2001:db8::1"), now)
                .expect("counted")
                .is_over
        );
        assert!(
            limiter
                .count(address("2001:db8::ffff:2"), now)
                .expect("counted")
                .is_over
        );
        assert!(
            !limiter
                .count(address("2001:db8:0:1::1"), now)
                .expect("counted")
                .is_over
        );
        assert!(
            !limiter
                .count(address("192.0.2.1"), now)
                .expect("counted")
                .is_over
        );
        assert!(
            limiter
                .count(address("::ffff:192.0.2.1"), now)
                .expect("counted")
                .is_over
        );
        assert_eq!(limiter.count(address("127.0.0.1"), now), None);
        assert_eq!(limiter.count(address("::1"), now), None);
    }

    #[test]
    fn the_table_is_bounded_and_forgets_what_is_over() {
        let (limiter, now) = (limiter(1, false), Instant::now());
        let distinct = |n: u32| IpAddr::from((0x0A00_0000 + n).to_be_bytes());
        for n in 0..ADDRESSES_MAX as u32 {
            assert!(limiter.count(distinct(n), now).is_some());
        }
        let late = address("192.0.2.1");
        assert_eq!(limiter.count(late, now), None);
        assert!(limiter.count(distinct(7), now).expect("known").is_over);
        let later = now + Duration::from_secs(900);
        assert!(!limiter.count(late, later).expect("counted").is_over);
        assert_eq!(limiter.windows.windows.lock().expect("windows").len(), 1);
    }
}
