//! Configuration, bounds, counters and accounts.

/// Makes an enum whose variants have names in metrics and in the configuration: both stand in one line.
macro_rules! named {
    ($(#[$about:meta])* $visible:vis enum $list:ident {
        $($(#[$doc:meta])* $variant:ident = $name:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $visible enum $list {
            $($(#[$doc])* $variant,)*
        }

        impl $list {
            /// The names, in the order of the variants.
            $visible const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];
        }
    };
}

pub mod claims;
pub(crate) mod close;
pub mod config;
pub mod limits;
pub mod metrics;
pub(crate) mod proxies;
pub mod tls;

use crate::config::Config;
use metrics::Counts;
use std::sync::Arc;

/// What the hub was told to do, and what it counts.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) config: Arc<Config>,
    pub(crate) counts: Counts,
}
