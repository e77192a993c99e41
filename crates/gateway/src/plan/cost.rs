//! Owns the bill of a month: machines, Redis, load balancer, traffic and people.

use super::prices::{Egress, Prices};
use super::sheet::{Sheet, Term, number, term};
use super::sizing::{Nodes, Redis};
use super::workload::{Load, Workload};
use anyhow::Result;
use serde::Serialize;

const BYTES_PER_GB: f64 = 1e9;
const SECONDS_PER_HOUR: f64 = 3_600.0;

/// A month in the currency of the price file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bill {
    pub machines: f64,
    pub redis: f64,
    pub load_balancer: f64,
    pub traffic: f64,
    pub traffic_gb: f64,
    /// All of the above.
    pub infrastructure: f64,
    pub people: f64,
    pub together: f64,
    pub infrastructure_per_user: f64,
    pub together_per_user: f64,
    pub target_per_user: f64,
    pub meets_target: bool,
}

pub fn bill(
    workload: &Workload,
    load: &Load,
    nodes: &Nodes,
    redis: &Redis,
    prices: &Prices,
    sheet: &mut Sheet,
) -> Result<Bill> {
    let money = &*prices.currency;
    sheet.section(&format!("Cost of a month in {money}"));
    let machines = machines(nodes, prices, sheet)?;
    let redis_cost = redis_cost(redis, prices, sheet);
    let traffic_gb = traffic_gb(workload, load, prices, sheet);
    let load_balancer = load_balancer(workload, load, traffic_gb, prices, sheet);
    let traffic = egress(traffic_gb, &prices.egress, money, sheet);
    let parts = [machines, redis_cost, load_balancer, traffic].map(|part| term(part, ""));
    let what = "machines, Redis, balancer and traffic";
    let infrastructure = sheet.reckon(what, money, Term::sum(parts));
    let people = people(prices, sheet);
    let all = term(infrastructure, "") + term(people, "people");
    let together = sheet.reckon("together", money, all);
    let mut by_user = |what: &str, cost: f64| {
        let cost = term(cost, "") / term(workload.users, "users");
        sheet.reckon(what, money, cost)
    };
    let infrastructure_per_user = by_user("by user, without people", infrastructure);
    let together_per_user = by_user("by user", together);
    let target = *prices.target_per_user_month;
    let source = "price file; without people";
    let target_per_user = sheet.given("target by user", target, money, source);
    Ok(Bill {
        machines,
        redis: redis_cost,
        load_balancer,
        traffic,
        traffic_gb,
        infrastructure,
        people,
        together,
        infrastructure_per_user,
        together_per_user,
        target_per_user,
        meets_target: infrastructure_per_user <= target_per_user,
    })
}

fn people(prices: &Prices, sheet: &mut Sheet) -> f64 {
    let hours = &prices.people;
    let (source, money) = (hours.quoted(), &*prices.currency);
    let rate = sheet.given("an hour of people", *hours.per_hour, money, &source);
    let cost = term(*hours.hours_per_month, "hours") * term(rate, "an hour");
    sheet.reckon("people", money, cost)
}

fn machines(nodes: &Nodes, prices: &Prices, sheet: &mut Sheet) -> Result<f64> {
    let instance = prices.instance(&nodes.instance)?;
    let (rate, source) = (*instance.per_hour, instance.quoted());
    let what = ("machines", &*instance.name);
    Ok(by_hour(what, nodes.count, (rate, &source), prices, sheet))
}

fn redis_cost(redis: &Redis, prices: &Prices, sheet: &mut Sheet) -> f64 {
    let mut nodes = prices.redis_nodes.iter();
    let Some(node) = nodes.find(|node| *node.name == redis.node) else {
        return 0.0;
    };
    let count = redis.masters + redis.replicas;
    let price = (*node.per_hour, &*node.quoted());
    by_hour(("Redis", &node.name), count, price, prices, sheet)
}

fn by_hour(
    (what, name): (&str, &str),
    count: f64,
    (per_hour, source): (f64, &str),
    prices: &Prices,
    sheet: &mut Sheet,
) -> f64 {
    sheet.given(name, per_hour, "an hour", source);
    let hours = term(*prices.hours_per_month, "h");
    let cost = term(count, "nodes") * term(per_hour, "an hour") * hours;
    sheet.reckon(what, &prices.currency, cost)
}

fn traffic_gb(workload: &Workload, load: &Load, prices: &Prices, sheet: &mut Sheet) -> f64 {
    let average =
        term(load.bytes_out_per_s, "B/s") * term(workload.load_factor, "of the peak on average");
    let seconds = term(*prices.hours_per_month * SECONDS_PER_HOUR, "s");
    let gb = average * seconds * term(1.0 / BYTES_PER_GB, "GB/B");
    sheet.reckon("traffic to clients", "GB", gb)
}

fn load_balancer(
    workload: &Workload,
    load: &Load,
    traffic_gb: f64,
    prices: &Prices,
    sheet: &mut Sheet,
) -> f64 {
    let balancer = &prices.load_balancer;
    let (price, source) = (*balancer.per_hour, balancer.quoted());
    let per_hour = sheet.given(&balancer.name, price, "an hour", &source);
    let share = |use_: f64, unit: f64| if unit > 0.0 { use_ / unit } else { 0.0 };
    let connects = load.connects_per_s * workload.load_factor;
    let active = load.connections * workload.load_factor;
    let gb = traffic_gb / *prices.hours_per_month;
    let units = [
        (
            "for connects",
            connects,
            balancer.unit_new_connections_per_second,
        ),
        ("for connections", active, balancer.unit_active_connections),
        ("for traffic", gb, balancer.unit_gb_per_hour),
    ];
    let units = units.map(|(what, used, unit)| term(share(used, *unit), what));
    let units = sheet.reckon("its units", "", Term::greatest(&units));
    let hourly = term(units, "units") * term(*balancer.per_unit_hour, "an hour");
    let hourly = sheet.reckon("units by hour", "an hour", hourly);
    let hourly = term(per_hour, "") + term(hourly, "");
    let rate = sheet.reckon("balancer by hour", "an hour", hourly);
    let month = term(rate, "an hour") * term(*prices.hours_per_month, "h");
    sheet.reckon("balancer", &prices.currency, month)
}

/// Fills tier after tier.
pub fn egress(gb: f64, egress: &Egress, money: &str, sheet: &mut Sheet) -> f64 {
    let what = "traffic that is free";
    let free = sheet.given(what, *egress.free_gb, "GB", &egress.quoted());
    let mut left = (gb - free).max(0.0);
    let mut parts: Vec<Term> = Vec::new();
    for tier in &egress.tiers {
        let here = left.min(tier.gb.map_or(f64::INFINITY, |gb| *gb));
        if here <= 0.0 {
            break;
        }
        let what = format!("traffic at {} a GB", number(*tier.per_gb));
        let cost = term(here, "GB") * term(*tier.per_gb, "a GB");
        parts.push(term(sheet.reckon(&what, money, cost), ""));
        left -= here;
    }
    match &parts[..] {
        [] => sheet.given("traffic", 0.0, money, "all of it is free"),
        [only] => only.value,
        _ => sheet.reckon("traffic", money, Term::sum(parts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_fills_tier_after_tier() {
        let prices = Prices::load(None).unwrap();
        let cost = |gb| egress(gb, &prices.egress, "USD", &mut Sheet::default());
        assert_eq!(cost(0.0), 0.0);
        assert_eq!(cost(100.0), 0.0);
        assert!((cost(1_100.0) - 90.0).abs() < 1e-9);
        // 10,000 × 0.09 + 40,000 × 0.085 + 9,900 × 0.07
        assert!((cost(60_000.0) - (900.0 + 3_400.0 + 693.0)).abs() < 1e-9);
        // 900 + 3,400 + 7,000 + 50,000 × 0.05
        assert!((cost(200_100.0) - 13_800.0).abs() < 1e-9);
    }
}
