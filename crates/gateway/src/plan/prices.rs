//! Owns the price file: what machines, traffic, Redis, people and managed services cost, each with
//! its source and the day it was looked up. The one built in is `benchmarks/prices.toml`.

use super::range::{AtLeast0, Count, Day, HoursOfMonth, Masters, Positive, Share, Words};
use super::sheet::{Figure, MONEY, Sheet, figure};
use super::toml_file;
use anyhow::{Result, bail};
use serde::Deserialize;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use units::nearest;

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

    /// Where figures were found, and when.
    Origin {
        source: Words,
        date: Day,
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
        gb: Option<Positive>,
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
        redis_masters_min: Masters,
        redis_replicas: Count,
        /// Measured processors against those of the price list: 2 halves the figures.
        core_factor: Positive,
        origin: Origin,
    }

    /// Services by how they bill.
    #[derive(Default)]
    #[serde(default)]
    Managed {
        by_tier: Vec<ByTier>,
        by_use: Vec<ByUse>,
        by_unit: Vec<ByUnit>,
    }

    /// The cheapest tier that holds the month.
    ByTier {
        name: Words,
        #[serde(rename = "tier")]
        tiers: Vec<Tier>,
        origin: Origin,
    }

    /// It holds as many as it names; what it does not name, it does not count.
    Tier {
        name: Words,
        per_month: AtLeast0,
        connections: Option<Positive>,
        messages_per_day: Option<Positive>,
        /// That were active in the month.
        users: Option<Positive>,
    }

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
        origin: Origin,
    }

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
        origin: Origin,
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
        match path {
            Some(path) => Prices::read(&toml_file::read(path)?, &path.display().to_string()),
            None => Prices::read(BUILT_IN, "built-in prices"),
        }
    }

    /// `name` is what messages call the text.
    fn read(text: &str, name: &str) -> Result<Prices> {
        let prices: Prices = toml_file::parse(text, name)?;
        prices.check()?;
        Ok(prices)
    }

    /// What neither the structure nor single values say.
    fn check(&self) -> Result<()> {
        let tables = [
            ("instance", self.instances.len()),
            ("redis", self.redis_nodes.len()),
        ];
        if let Some((table, _)) = tables.iter().find(|(_, count)| *count == 0) {
            bail!("cannot plan: the price file has no [[{table}]]");
        }
        let mut names: Vec<&str> = self.instances.iter().map(|one| &**one.name).collect();
        names.sort_unstable();
        if let Some(name) = names
            .windows(2)
            .find(|two| two[0] == two[1])
            .map(|two| two[0])
        {
            bail!("cannot plan with instance {name} twice: give the second another name");
        }
        let tiers = &self.egress.tiers;
        let endless = tiers.iter().position(|tier| tier.gb.is_none());
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
        sheet.reckon("cost", MONEY, nodes * per_hour * hours)
    }

    pub fn instance(&self, name: &str) -> Result<&Instance> {
        let names = || self.instances.iter().map(|instance| &**instance.name);
        let mut instances = self.instances.iter();
        let found = instances.find(|instance| **instance.name == *name);
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
        date = \"2026-09-29\"      | date = \"yesterday\"    | cannot plan with \"yesterday\": it must be a day such as 2026-01-31";

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
    fn a_mistake_is_told_with_its_line() {
        for mistake in MISTAKES.trim().lines() {
            let parts: Vec<&str> = mistake.split('|').map(str::trim).collect();
            let [from, to, told] = parts[..] else {
                panic!("{mistake}")
            };
            let error = refused(from, to);
            let before = &BUILT_IN[..BUILT_IN.find(from).unwrap()];
            let line = format!("prices.toml:{}:", before.matches('\n').count() + 1);
            assert!(
                error.starts_with(&line) && error.contains(told),
                "{line} {told}: {error}"
            );
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let endless = refused("gb = 10_000, per_gb", "per_gb");
        assert!(endless.contains("of [[egress.tier]] the last"), "{endless}");
        let twice = refused("name = \"c7g.xlarge\"", "name = \"c7g.large\"");
        assert!(twice.contains("instance c7g.large twice"), "{twice}");
        let missing = refused("network_gbps = 0.937\n", "");
        assert!(
            missing.contains("missing field `network_gbps`"),
            "{missing}"
        );
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
