//! Owns the bill of a month: machines, Redis, load balancer, traffic and people.

use super::Facts;
use super::prices::{Egress, Prices};
use super::sheet::{Figure, MONEY, Sheet, Term, figure, number};

/// The bill; of interest beyond it is the traffic to clients.
pub fn bill(facts: &Facts, machines: Figure, redis: Figure, sheet: &mut Sheet) -> Figure {
    let (prices, money) = (facts.prices, &facts.prices.currency);
    sheet.section(&format!("Cost of a month in {money}"));
    let gb = traffic_gb(facts, sheet);
    let balancer = load_balancer(facts, gb, sheet);
    let traffic = egress(gb, &prices.egress, sheet);
    let parts = [machines, redis, balancer, traffic];
    let what = "machines, Redis, balancer and traffic";
    let infrastructure = sheet.derive(what, MONEY, Term::sum(parts));
    let people = people(*prices.people.hours_per_month, prices, sheet);
    let together = sheet.derive("together", MONEY, infrastructure + people);
    let users = figure(*facts.question.workload.users, "users");
    let each = sheet.derive("by user, without people", MONEY, infrastructure / users);
    let all = sheet.derive("by user", MONEY, together / users);

    let megabits = number(facts.load.bytes_out_per_s.value * 8e-6);
    sheet.answer(
        "bandwidth",
        format!("{megabits} Mbit/s at the peak, {gb} a month"),
    );
    let parts = [together, machines, redis, balancer, traffic, people];
    let [together, machines, redis, balancer, traffic, people] = parts.map(Figure::rounded);
    sheet.answer("cost", format!("{together} {money} a month: machines {machines}, Redis {redis}, balancer {balancer}, traffic {traffic}, people {people}"));
    let target = *prices.target_per_user_month;
    let verdict = match each.value <= target {
        true => "meets".to_owned(),
        false => format!("is {} times", number(each.value / target)),
    };
    let [each, all] = [each, all].map(Figure::bare);
    sheet.answer(
        "target",
        format!(
            "{each} {money} by user and month {verdict} the target of {target}; {all} with people"
        ),
    );
    gb
}

/// What so many hours of people cost.
pub fn people(hours: f64, prices: &Prices, sheet: &mut Sheet) -> Figure {
    let (rate, origin) = (*prices.people.per_hour, &prices.people.origin);
    let rate = sheet.given("an hour of people", rate, "an hour", origin);
    sheet.derive("people", MONEY, figure(hours, "hours") * rate)
}

fn traffic_gb(facts: &Facts, sheet: &mut Sheet) -> Figure {
    let seconds = figure(*facts.prices.hours_per_month * 3_600.0, "s");
    let gb = facts.load.bytes_out_per_s * facts.average * seconds / figure(1e9, "B/GB");
    sheet.derive("traffic to clients", "GB", gb)
}

fn load_balancer(facts: &Facts, gb: Figure, sheet: &mut Sheet) -> Figure {
    let (balancer, load) = (&facts.prices.load_balancer, &facts.load);
    let hours = figure(*facts.prices.hours_per_month, "h");
    let base = *balancer.per_hour;
    let base = sheet.given(&balancer.name, base, "an hour", &balancer.origin);
    // A unit that does not count a use holds any amount of it, as division by zero is zero here.
    let units = |used: Term, unit: f64, what| (used / figure(unit, "")).figure(what);
    let connects = load.connects_per_s * facts.average;
    let active = load.connections * facts.average;
    let units = Term::greatest(&[
        units(
            connects,
            *balancer.unit_new_connections_per_second,
            "for connects",
        ),
        units(active, *balancer.unit_active_connections, "for connections"),
        units(gb / hours, *balancer.unit_gb_per_hour, "for traffic"),
    ]);
    let units = sheet.derive("its units", "units", units);
    let units = units * figure(*balancer.per_unit_hour, "an hour");
    let units = sheet.derive("units", "an hour", units);
    let rate = sheet.derive("balancer by hour", "an hour", base + units);
    sheet.derive("balancer", MONEY, rate * hours)
}

/// Fills tier after tier.
pub fn egress(gb: Figure, egress: &Egress, sheet: &mut Sheet) -> Figure {
    let free = *egress.free_gb;
    let free = sheet.given("traffic that is free", free, "GB", &egress.origin);
    let mut left = (gb.value - free.value).max(0.0);
    let mut parts = Vec::new();
    for tier in &egress.tiers {
        let here = left.min(*tier.gb);
        if here > 0.0 {
            let cost = figure(here, "GB") * figure(*tier.per_gb, "a GB");
            parts.push(sheet.derive("traffic of a tier", MONEY, cost));
        }
        left -= here;
    }
    sheet.derive("traffic", MONEY, Term::sum(parts))
}

#[cfg(test)]
mod tests {
    use super::super::tests::close;
    use super::*;

    #[test]
    fn traffic_fills_tier_after_tier() {
        let prices = Prices::load(None).unwrap();
        let mut sheet = Sheet::new("USD");
        // 10,000 × 0.09 + 40,000 × 0.085 + 9,900 × 0.07; 900 + 3,400 + 7,000 + 50,000 × 0.05
        let costs = [
            (0.0, 0.0),
            (100.0, 0.0),
            (1_100.0, 90.0),
            (60_000.0, 4_993.0),
            (200_100.0, 13_800.0),
        ];
        for (gb, cost) in costs {
            let seen = egress(figure(gb, "GB"), &prices.egress, &mut sheet);
            close(seen.value, cost);
        }
    }
}
