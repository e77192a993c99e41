//! Owns the price file: what machines, traffic, Redis, people and managed services cost, each with
//! its source and the day it was looked up. The one built in is `benchmarks/prices.toml`.

use super::price_check;
use anyhow::{Result, bail};
use bench::nearest::nearest;
use bench::toml_file;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The price file this program was built with.
pub const BUILT_IN: &str = include_str!("../../../../benchmarks/prices.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Day of the file as a whole; single prices carry their own.
    pub dated: String,
    pub currency: String,
    pub hours_per_month: f64,
    /// What a user and month should cost at most: machines, Redis, balancer and traffic.
    pub target_per_user_month: f64,
    #[serde(rename = "instance")]
    pub instances: Vec<Instance>,
    #[serde(rename = "redis")]
    pub redis_nodes: Vec<RedisNode>,
    pub load_balancer: LoadBalancer,
    pub egress: Egress,
    pub people: People,
    pub sizing: Sizing,
    #[serde(default)]
    pub managed: Managed,
}

/// Where a price was found; `assumption` where nobody publishes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    Published,
    Assumption,
}

/// A machine a node runs on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    pub name: String,
    pub vcpus: f64,
    pub memory_gib: f64,
    /// What it can send all the time, not in bursts.
    pub network_gbps: f64,
    pub per_hour: f64,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisNode {
    pub name: String,
    pub memory_gib: f64,
    pub per_hour: f64,
    /// Messages in and out a second that one node is trusted with.
    pub messages_per_second: f64,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

/// Billed by the hour and by the unit that the greatest of three uses fills.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancer {
    pub name: String,
    pub per_hour: f64,
    pub per_unit_hour: f64,
    pub unit_new_connections_per_second: f64,
    pub unit_active_connections: f64,
    pub unit_gb_per_hour: f64,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

/// Traffic to the internet by month; tiers follow each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    pub free_gb: f64,
    #[serde(rename = "tier")]
    pub tiers: Vec<EgressTier>,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressTier {
    /// Gigabytes of this tier; the last has none.
    pub gb: Option<f64>,
    pub per_gb: f64,
}

/// What people cost who keep it running.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct People {
    pub per_hour: f64,
    pub hours_per_month: f64,
    /// The same for a managed service.
    pub managed_hours_per_month: f64,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

/// What no price list and no load test says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizing {
    /// Share of a node's processors that may be busy at the peak.
    pub cpu_target: f64,
    pub memory_target: f64,
    pub network_target: f64,
    /// Of a connection in the kernel, our end only.
    pub kernel_bytes_per_connection: f64,
    /// Of an idle TLS session; counts with `--tls`.
    pub tls_bytes_per_connection: f64,
    /// What a node spends on a message that another node published.
    pub cluster_cpu_us_per_message: f64,
    /// Of the session registry in Redis, by connection.
    pub redis_bytes_per_connection: f64,
    /// Fewest masters of a Redis Cluster, and replicas of each.
    pub redis_masters_min: f64,
    pub redis_replicas: f64,
    /// Measured processors against those of the price list: 2 halves the figures.
    pub core_factor: f64,
    pub source: String,
    pub date: String,
}

/// Services by how they bill.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Managed {
    pub by_tier: Vec<ByTier>,
    pub by_use: Vec<ByUse>,
    pub by_unit: Vec<ByUnit>,
    pub by_user: Vec<ByUser>,
}

/// The cheapest tier that holds both connections and messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByTier {
    pub name: String,
    #[serde(rename = "tier")]
    pub tiers: Vec<Tier>,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    pub name: String,
    pub per_month: f64,
    pub connections: f64,
    pub messages_per_day: f64,
}

/// A fee and so much by million.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByUse {
    pub name: String,
    pub per_month: f64,
    pub per_million_messages: f64,
    pub per_million_connection_minutes: f64,
    #[serde(default)]
    pub per_million_channel_minutes: f64,
    /// A message larger than this counts as several.
    pub message_kib: f64,
    /// Traffic to the internet is billed beside it.
    #[serde(default)]
    pub with_egress: bool,
    /// Most connections that the plan allows.
    pub connections_max: Option<f64>,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

/// Units of so many connections by the day, each with free messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByUnit {
    pub name: String,
    pub per_unit_day: f64,
    pub unit_connections: f64,
    pub unit_messages_per_day: f64,
    pub per_million_messages: f64,
    pub message_kib: f64,
    /// Only what the service sends counts.
    pub outbound_only: bool,
    pub units_max: Option<f64>,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

/// By users that were active in the month; between steps the next one is paid.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByUser {
    pub name: String,
    #[serde(rename = "step")]
    pub steps: Vec<UserStep>,
    pub source: String,
    pub date: String,
    pub basis: Basis,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserStep {
    pub users: f64,
    pub per_month: f64,
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
        price_check::check(text, name)?;
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
            if self.instances[..at].iter().any(|other| other.name == *name) {
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
        let found = self.instances.iter().find(|instance| instance.name == name);
        found.ok_or_else(|| {
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("known: {}", names().collect::<Vec<_>>().join(", ")),
            };
            anyhow::anyhow!("cannot plan with instance {name:?}: not in the price file; {hint}")
        })
    }
}

/// How a price is quoted in a line.
pub fn quoted(source: &str, date: &str, basis: Basis) -> String {
    match basis {
        Basis::Published => format!("{source}, {date}"),
        Basis::Assumption => format!("assumption, {date}: {source}"),
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

    #[test]
    fn the_built_in_prices_are_whole_and_each_has_source_and_date() {
        let prices = Prices::load(None).unwrap();
        let mut quotes = vec![
            (&prices.load_balancer.source, &prices.load_balancer.date),
            (&prices.egress.source, &prices.egress.date),
            (&prices.people.source, &prices.people.date),
            (&prices.sizing.source, &prices.sizing.date),
        ];
        quotes.extend(prices.instances.iter().map(|i| (&i.source, &i.date)));
        quotes.extend(prices.redis_nodes.iter().map(|r| (&r.source, &r.date)));
        quotes.extend(prices.managed.by_tier.iter().map(|m| (&m.source, &m.date)));
        quotes.extend(prices.managed.by_use.iter().map(|m| (&m.source, &m.date)));
        quotes.extend(prices.managed.by_unit.iter().map(|m| (&m.source, &m.date)));
        quotes.extend(prices.managed.by_user.iter().map(|m| (&m.source, &m.date)));
        for (source, date) in quotes {
            assert!(source.len() > 10, "{source:?}");
            let parts: Vec<&str> = date.split('-').collect();
            assert!(matches!(parts[..], [y, m, d] if y.len() == 4 && m.len() == 2 && d.len() == 2));
        }
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
    fn shares_and_sizes_that_cannot_be_are_refused() {
        assert!(refused("cpu_target = 0.", "cpu_target = 5").contains("sizing.cpu_target = 5"));
        assert!(refused("vcpus = 2", "vcpus = 0").contains("must be above 0"));
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
    fn an_instance_that_is_not_priced_is_refused_with_the_nearest() {
        let prices = Prices::load(None).unwrap();
        let error = prices.instance("c7g.lrge").unwrap_err().to_string();
        assert!(error.ends_with("did you mean c7g.large?"), "{error}");
        let far = prices.instance("mainframe").unwrap_err().to_string();
        assert!(far.contains("known: c7g.large"), "{far}");
    }
}
