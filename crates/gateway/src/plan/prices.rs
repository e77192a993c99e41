//! Owns the price file: what machines, traffic, Redis, people and managed services cost, each with
//! its source and the day it was looked up. The one built in is `benchmarks/prices.toml`.

use super::range::{AtLeast0, Count, Day, HoursOfMonth, Masters, Positive, Share, Words};
use anyhow::{Result, bail};
use bench::toml_file;
use serde::{Deserialize, Serialize};
use std::path::Path;
use units::nearest;

/// The price file this program was built with.
pub const BUILT_IN: &str = include_str!("../../../../benchmarks/prices.toml");

/// Where a price was found; `assumption` where nobody publishes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    Published,
    Assumption,
}

/// A table of the file without a source of its own.
macro_rules! table {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$of])* pub $field: $type),* }
    };
}

/// A price with where it was found, on which day.
macro_rules! quoted {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $type:ty,)* }) => {
        table! {
            $(#[$about])*
            $name { $($(#[$of])* $field: $type,)* source: Words, date: Day, basis: Basis, }
        }

        impl $name {
            /// How the price is quoted in a line.
            pub fn quoted(&self) -> String {
                let (source, date) = (&*self.source, &*self.date);
                match self.basis {
                    Basis::Published => format!("{source}, {date}"),
                    Basis::Assumption => format!("assumption, {date}: {source}"),
                }
            }
        }
    };
}

table! {
    Prices {
        /// Day of the file as a whole; single prices carry their own.
        dated: Day,
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
        #[serde(default)]
        managed: Managed,
    }
}

quoted! {
    /// A machine a node runs on.
    Instance {
        name: Words,
        vcpus: Positive,
        memory_gib: Positive,
        /// What it can send all the time, not in bursts.
        network_gbps: Positive,
        per_hour: AtLeast0,
    }
}

quoted! {
    RedisNode {
        name: Words,
        memory_gib: Positive,
        per_hour: AtLeast0,
        /// Messages in and out a second that one node is trusted with.
        messages_per_second: Positive,
    }
}

quoted! {
    /// Billed by the hour and by the unit that the greatest of three uses fills.
    LoadBalancer {
        name: Words,
        per_hour: AtLeast0,
        per_unit_hour: AtLeast0,
        unit_new_connections_per_second: AtLeast0,
        unit_active_connections: AtLeast0,
        unit_gb_per_hour: AtLeast0,
    }
}

quoted! {
    /// Traffic to the internet by month; tiers follow each other.
    Egress {
        free_gb: AtLeast0,
        #[serde(rename = "tier")]
        tiers: Vec<EgressTier>,
    }
}

table! {
    EgressTier {
        /// Gigabytes of this tier; the last has none.
        gb: Option<Positive>,
        per_gb: AtLeast0,
    }
}

quoted! {
    /// What people cost who keep it running.
    People {
        per_hour: AtLeast0,
        hours_per_month: AtLeast0,
        /// The same for a managed service.
        managed_hours_per_month: AtLeast0,
    }
}

table! {
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
        /// What a node spends on a message that another node published.
        cluster_cpu_us_per_message: AtLeast0,
        /// Of the session registry in Redis, by connection.
        redis_bytes_per_connection: AtLeast0,
        /// Fewest masters of a Redis Cluster, and replicas of each.
        redis_masters_min: Masters,
        redis_replicas: Count,
        /// Measured processors against those of the price list: 2 halves the figures.
        core_factor: Positive,
        source: Words,
        date: Day,
    }
}

/// Services by how they bill.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Managed {
    pub by_tier: Vec<ByTier>,
    pub by_use: Vec<ByUse>,
    pub by_unit: Vec<ByUnit>,
}

quoted! {
    /// The cheapest tier that holds the month.
    ByTier {
        name: Words,
        #[serde(rename = "tier")]
        tiers: Vec<Tier>,
    }
}

table! {
    /// It holds as many as it names; what it does not name, it does not count.
    Tier {
        name: Words,
        per_month: AtLeast0,
        connections: Option<Positive>,
        messages_per_day: Option<Positive>,
        /// That were active in the month.
        users: Option<Positive>,
    }
}

quoted! {
    /// A fee and so much by million.
    ByUse {
        name: Words,
        per_month: AtLeast0,
        per_million_messages: AtLeast0,
        per_million_connection_minutes: AtLeast0,
        per_million_channel_minutes: Option<AtLeast0>,
        /// A message larger than this counts as several.
        message_kib: Positive,
        /// Traffic to the internet is billed beside it.
        #[serde(default)]
        with_egress: bool,
        /// Most connections that the plan allows.
        connections_max: Option<Positive>,
    }
}

quoted! {
    /// Units of so many connections by the day, each with free messages.
    ByUnit {
        name: Words,
        per_unit_day: AtLeast0,
        unit_connections: Positive,
        unit_messages_per_day: AtLeast0,
        per_million_messages: AtLeast0,
        message_kib: Positive,
        /// Only what the service sends counts.
        outbound_only: bool,
        units_max: Option<Positive>,
    }
}

impl Prices {
    /// From a file, or those built in.
    pub fn load(path: Option<&Path>) -> Result<Prices> {
        match path {
            Some(path) => Prices::read(&toml_file::read(path)?, &path.display().to_string()),
            None => Prices::read(BUILT_IN, "built-in prices"),
        }
    }

    /// `name` is what messages call the text.
    pub fn read(text: &str, name: &str) -> Result<Prices> {
        let prices: Prices = toml_file::parse(text, name)?;
        prices.check()?;
        Ok(prices)
    }

    /// What neither the structure nor single values say.
    fn check(&self) -> Result<()> {
        if self.instances.is_empty() {
            bail!("cannot plan without machines: the price file has no [[instance]]");
        }
        if self.redis_nodes.is_empty() {
            bail!("cannot plan for several nodes: the price file has no [[redis]]");
        }
        for (at, instance) in self.instances.iter().enumerate() {
            let name = &instance.name;
            if self.instances[..at]
                .iter()
                .any(|other| *other.name == **name)
            {
                bail!(
                    "cannot plan with instance {name} twice: give the second [[instance]] another name"
                );
            }
        }
        let Some((last, others)) = self.egress.tiers.split_last() else {
            bail!("cannot price traffic: the price file has no [[egress.tier]]");
        };
        if last.gb.is_some() {
            bail!("cannot price traffic: the last [[egress.tier]] must have no gb");
        }
        if others.iter().any(|tier| tier.gb.is_none()) {
            bail!("cannot price traffic: all but the last [[egress.tier]] must have gb");
        }
        Ok(())
    }

    pub fn instance(&self, name: &str) -> Result<&Instance> {
        let names = || self.instances.iter().map(|instance| &*instance.name);
        let found = self
            .instances
            .iter()
            .find(|instance| &*instance.name == name);
        found.ok_or_else(|| {
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("known: {}", names().collect::<Vec<_>>().join(", ")),
            };
            anyhow::anyhow!("cannot plan with instance {name:?}: not in the price file; {hint}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(from: &str, to: &str) -> String {
        assert!(BUILT_IN.contains(from), "{from} is not in the file");
        let text = BUILT_IN.replacen(from, to, 1);
        Prices::read(&text, "prices.toml").unwrap_err().to_string()
    }

    /// Ranges, days and sources are types of the fields: what is read is sound.
    #[test]
    fn the_built_in_prices_are_sound() {
        let prices = Prices::load(None).unwrap();
        assert!(prices.managed.by_tier.len() > 1 && prices.instances.len() > 1);
    }

    #[test]
    fn an_unknown_key_is_refused_with_line_and_nearest_name() {
        let error = refused("target_per_user_month", "target_per_usr_month");
        let line = BUILT_IN
            .lines()
            .position(|line| line.starts_with("target_per_user_month"))
            .unwrap()
            + 1;
        assert!(
            error.starts_with(&format!("prices.toml:{line}:1:")),
            "{error}"
        );
        assert!(
            error.contains("did you mean `target_per_user_month`?"),
            "{error}"
        );
        let nested = refused("memory_gib =", "memory_gb =");
        assert!(nested.contains("did you mean `memory_gib`?"), "{nested}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let endless = refused("gb = 10_000, per_gb", "per_gb");
        assert!(
            endless.contains("all but the last [[egress.tier]]"),
            "{endless}"
        );
        let twice = refused("name = \"c7g.xlarge\"", "name = \"c7g.large\"");
        assert!(twice.contains("instance c7g.large twice"), "{twice}");
        assert!(refused("basis = \"published\"", "basis = \"rumour\"").contains("unknown variant"));
    }

    #[test]
    fn every_figure_has_its_range() {
        for (from, to, told) in [
            (
                "\nhours_per_month = 730",
                "\nhours_per_month = 0",
                "0 is no figure for a plan: it must be above 0 and at most 744",
            ),
            (
                "messages_per_second = 20_000",
                "messages_per_second = 0",
                "must be above 0",
            ),
            ("per_hour = 0.0725", "per_hour = nan", "NaN is no figure"),
            ("per_hour = 0.0725", "per_hour = inf", "inf is no figure"),
            (
                "per_hour = 75",
                "per_hour = -75",
                "-75 is no figure for a plan: it must be at least 0 and at most 1,000,000,000,000",
            ),
            ("gb = 40_000", "gb = 0", "must be above 0"),
            (
                "redis_replicas = 1",
                "redis_replicas = -1",
                "a whole number from 0 to 1,000",
            ),
            (
                "redis_masters_min = 3",
                "redis_masters_min = 2.5",
                "2.5 is no figure for a plan: it must be a whole number from 1 to 1,000",
            ),
            (
                "cpu_target = 0.",
                "cpu_target = 5",
                "a share between 0.01 and 1",
            ),
            (
                "currency = \"USD\"",
                "currency = \"\"",
                "a text that says something",
            ),
            (
                "date = \"2026-09-29\"",
                "date = \"yesterday\"",
                "\"yesterday\" is no day: write YYYY-MM-DD",
            ),
        ] {
            let error = refused(from, to);
            assert!(error.contains(told), "{error}");
            let line = BUILT_IN[..BUILT_IN.find(from).unwrap() + 1]
                .matches('\n')
                .count()
                + 1;
            assert!(
                error.starts_with(&format!("prices.toml:{line}:")),
                "{line}: {error}"
            );
        }
    }

    #[test]
    fn an_instance_that_is_not_priced_is_refused_with_the_nearest() {
        let prices = Prices::load(None).unwrap();
        let error = prices.instance("c7g.lrge").unwrap_err().to_string();
        assert!(error.ends_with("did you mean c7g.large?"), "{error}");
        let far = prices.instance("mainframe").unwrap_err().to_string();
        assert!(far.contains("known: c7g.large"), "{far}");
    }
}
