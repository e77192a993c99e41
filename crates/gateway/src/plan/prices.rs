//! Owns the price file: what machines, traffic, Redis, people and managed services cost, each with
//! its source and the day it was looked up. The one built in is `benchmarks/prices.toml`.

use super::range::{AtLeast0, Count, HoursOfMonth, Most, Number, Positive, Share, Words};
use super::sheet::{Figure, MONEY, Sheet, figure};
use anyhow::{Context, Result, anyhow, bail};
use process::files;
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use toml::value::Date;
use units::{nearest, position};

/// The price file this program was built with.
pub const BUILT_IN: &str = include_str!("../../../../benchmarks/prices.toml");

/// Tables of the file.
macro_rules! tables {
    ($($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $type:ty,)* })*) => {$(
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        $(#[$about])*
        pub struct $name { $($(#[$of])* pub $field: $type),* }
    )*};
}

tables! {
    Prices {
        /// Day of the file as a whole; single prices carry their own.
        dated: Date,
        currency: Words,
        hours_per_month: HoursOfMonth,
        /// What a user and month should cost at most: machines, Redis, balancer and traffic.
        target_per_user_month: Positive,
        #[serde(rename = "instance")]
        instances: Vec<Instance>,
        #[serde(rename = "redis")]
        redis_nodes: Vec<RedisNode>,
        load_balancer: LoadBalancer,
        egress: Egress,
        people: People,
        sizing: Sizing,
        #[serde(default)] managed: Vec<Managed>,
    }

    /// Where figures were found, and when.
    Origin {
        source: Words,
        date: Date,
        basis: Basis,
    }

    /// A machine a node runs on.
    Instance {
        name: Words,
        vcpus: Positive,
        memory_gib: Positive,
        /// What it can send all the time, not in bursts.
        network_gbps: Positive,
        per_hour: AtLeast0,
        origin: Origin,
    }

    RedisNode {
        name: Words,
        memory_gib: Positive,
        per_hour: AtLeast0,
        /// Messages in and out a second that one node is trusted with.
        messages_per_second: Positive,
        origin: Origin,
    }

    /// Billed by the hour and by the unit that the greatest of three uses fills.
    LoadBalancer {
        name: Words,
        per_hour: AtLeast0,
        per_unit_hour: AtLeast0,
        unit_new_connections_per_second: AtLeast0,
        unit_active_connections: AtLeast0,
        unit_gb_per_hour: AtLeast0,
        origin: Origin,
    }

    /// Traffic to the internet by month; tiers follow each other.
    Egress {
        free_gb: AtLeast0,
        #[serde(rename = "tier")]
        tiers: Vec<EgressTier>,
        origin: Origin,
    }

    EgressTier {
        /// Gigabytes of this tier; the last has none.
        #[serde(default)] gb: Most,
        per_gb: AtLeast0,
    }

    /// What people cost who keep it running.
    People {
        per_hour: AtLeast0,
        hours_per_month: AtLeast0,
        /// The same for a managed service.
        managed_hours_per_month: AtLeast0,
        origin: Origin,
    }

    /// What no price list and no load test says.
    Sizing {
        /// Share of a node's processors that may be busy at the peak.
        cpu_target: Share,
        memory_target: Share,
        network_target: Share,
        /// Of a connection in the kernel, our end only.
        kernel_bytes_per_connection: AtLeast0,
        /// Of an idle TLS session; counts with `--tls`.
        tls_bytes_per_connection: AtLeast0,
        /// What nodes and Redis spend on a message from one node to another.
        cluster_cpu_us_per_message: AtLeast0,
        /// What Redis keeps for a node that stands still.
        redis_mib_per_node: AtLeast0,
        /// Fewest masters of a Redis Cluster, and replicas of each.
        redis_masters_min: Number,
        redis_replicas: Count,
        /// Measured processors against those of the price list: 2 halves the figures.
        core_factor: Positive,
        origin: Origin,
    }

    /// A service bills the cheapest of its tiers that holds the month, and what is used besides.
    Managed {
        name: Words,
        #[serde(rename = "tier")]
        tiers: Vec<Tier>,
        #[serde(default)] per_million_messages: AtLeast0,
        #[serde(default)] per_million_connection_minutes: AtLeast0,
        #[serde(default)] per_million_channel_minutes: AtLeast0,
        /// A message larger than this counts as several.
        #[serde(default)] message_kib: Most,
        /// Only messages that the service sends count.
        #[serde(default)] outbound_only: bool,
        /// Traffic to the internet is billed beside it.
        #[serde(default)] with_egress: bool,
        origin: Origin,
    }

    /// It holds as many as it names; what it does not name, it does not count.
    Tier {
        name: Words,
        per_month: AtLeast0,
        #[serde(default)] connections: Most,
        #[serde(default)] messages_per_day: Most,
        /// That were active in the month.
        #[serde(default)] users: Most,
        /// Tiers that one may buy for more connections.
        #[serde(default)] count_max: Number,
        #[serde(default)] free_messages_per_day: AtLeast0,
    }
}

/// `assumption` where nobody publishes a price.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    Published,
    Assumption,
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (source, date) = (&self.source, &self.date);
        match self.basis {
            Basis::Published => write!(f, "{source}, {date}"),
            Basis::Assumption => write!(f, "assumption, {date}: {source}"),
        }
    }
}

impl Prices {
    /// From a file, or those built in.
    pub fn load(path: Option<&Path>) -> Result<Prices> {
        let Some(path) = path else {
            return Prices::read(BUILT_IN, "built-in prices");
        };
        let name = path.display().to_string();
        let text = files::text(path, files::BYTES_MAX);
        let text = text.with_context(|| format!("cannot read {name}"))?;
        Prices::read(&text, &name)
    }

    /// `name` is what messages call the text.
    fn read(text: &str, name: &str) -> Result<Prices> {
        let prices: Prices = toml::from_str(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            let (message, hint) = (error.message(), suggestion(error.message()));
            let hint = hint.unwrap_or_default();
            anyhow!("{name}:{line}:{column}: {message}{hint}")
        })?;
        prices.check()?;
        Ok(prices)
    }

    /// What neither the structure nor single values say.
    fn check(&self) -> Result<()> {
        let mut seen = HashSet::new();
        let mut names = self.instances.iter().map(|one| &*one.name);
        if let Some(name) = names.find(|name| !seen.insert(*name)) {
            bail!(
                "cannot price machines: instance {name} is there twice; give the second another name"
            );
        }
        let tiers = &self.egress.tiers;
        let endless = tiers.iter().position(|tier| tier.gb.is_infinite());
        if endless.is_none_or(|at| at + 1 != tiers.len()) {
            bail!(
                "cannot price traffic: of [[egress.tier]] the last must have no gb, and all others must"
            );
        }
        Ok(())
    }

    /// What so many nodes cost, each `per_hour`.
    pub fn month(&self, nodes: Figure, per_hour: Figure, sheet: &mut Sheet) -> Figure {
        let hours = figure(*self.hours_per_month, "h");
        sheet.derive("cost", MONEY, nodes * per_hour * hours)
    }

    pub fn instance(&self, name: &str) -> Result<&Instance> {
        let found = self.instances.iter().find(|one| **one.name == *name);
        found.with_context(|| {
            let known: Vec<&str> = self.instances.iter().map(|one| &**one.name).collect();
            let known = known.join(", ");
            format!("cannot plan with instance {name:?}: the price file has {known}")
        })
    }
}

/// Serde names the unknown word first and what it expected after it, all in backticks.
fn suggestion(message: &str) -> Option<String> {
    let unknown = message.strip_prefix("unknown ")?;
    let mut quoted = unknown.split('`').skip(1).step_by(2);
    let known = nearest(quoted.next()?, quoted)?;
    Some(format!("; did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `what stands in the file | what stands there instead | what is told of it`.
    const MISTAKES: &str = "
        target_per_user_month =    | target_per_usr_month =  | did you mean `target_per_user_month`?
        memory_gib =               | memory_gb =             | did you mean `memory_gib`?
        basis = \"published\"      | basis = \"rumour\"      | unknown variant
        network_gbps = 0.937       | bandwidth = 0.937       | unknown field `bandwidth`, expected one of
        vcpus = 2                  | vcpus = \"two\"         | invalid type
        vcpus = 2                  | vcpus =                 | prices.toml:
        hours_per_month = 730      | hours_per_month = 0     | cannot plan with 0.0: it must be above 0 and at most 744
        messages_per_second = 20_000 | messages_per_second = 0 | must be above 0
        per_hour = 0.0725          | per_hour = nan          | cannot plan with NaN
        per_hour = 0.0725          | per_hour = inf          | cannot plan with inf
        per_hour = 75              | per_hour = -75          | cannot plan with -75.0: it must be at least 0 and at most 1,000,000,000,000
        gb = 40_000                | gb = 0                  | must be above 0
        redis_replicas = 1         | redis_replicas = -1     | a whole number from 0 to 1,000
        redis_masters_min = 3      | redis_masters_min = 2.5 | cannot plan with 2.5: it must be a whole number from 1 to 1,000
        cpu_target = 0.5           | cpu_target = 5          | a share, above 0 and at most 1
        currency = \"USD\"         | currency = \"\"         | a text that says something
        gb = 10_000, per_gb      | per_gb                  | cannot price traffic: of [[egress.tier]] the last
        name = \"c7g.xlarge\"    | name = \"c7g.large\"     | cannot price machines: instance c7g.large is there twice
        date = 2026-09-29        | date = 2026-02-29       | invalid
        date = 2026-09-29        | date = \"yesterday\"    | a TOML date";

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for mistake in MISTAKES.trim().lines() {
            let parts: Vec<&str> = mistake.split('|').map(str::trim).collect();
            let [from, to, told] = parts[..] else {
                panic!("{mistake}")
            };
            assert!(BUILT_IN.contains(from), "{from} is not in the file");
            let text = BUILT_IN.replacen(from, to, 1);
            let error = Prices::read(&text, "prices.toml").unwrap_err().to_string();
            let before = &BUILT_IN[..BUILT_IN.find(from).unwrap()];
            let line = format!("prices.toml:{}:", before.matches('\n').count() + 1);
            // What contradicts itself has no line.
            let starts = error.starts_with(&line) || told.starts_with("cannot price");
            assert!(starts && error.contains(told), "{line} {told}: {error}");
        }
    }
}
