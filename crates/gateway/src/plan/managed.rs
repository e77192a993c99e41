//! Owns the comparison with managed services: what each would bill for the same month, by its own
//! way of counting, or why it does not offer that much.

use super::cost;
use super::prices::{ByTier, ByUnit, ByUse, Prices, Tier};
use super::range::Positive;
use super::sheet::{Sheet, Term, number, term};
use super::workload::{Load, Workload};
use serde::Serialize;

const DAYS_PER_MONTH: f64 = 365.0 / 12.0;
const MINUTES_PER_HOUR: f64 = 60.0;
const MILLION: f64 = 1e6;
const KIB: f64 = 1_024.0;

/// What one service would bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quote {
    pub name: String,
    /// `None` when its published plans end below this load.
    pub per_month: Option<f64>,
    pub remark: String,
}

/// A month as services count it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Month {
    users: f64,
    connections_peak: f64,
    connection_minutes: f64,
    channel_minutes: f64,
    messages_in: f64,
    messages_out: f64,
    payload: f64,
    traffic_gb: f64,
}

pub fn quotes(
    workload: &Workload,
    load: &Load,
    traffic_gb: f64,
    prices: &Prices,
    sheet: &mut Sheet,
) -> Vec<Quote> {
    sheet.section("Managed services: the month as they count it");
    let month = Month::of(workload, load, traffic_gb, prices, sheet);
    let managed = &prices.managed;
    let mut quotes = Vec::new();
    let money = &*prices.currency;
    let tiers = managed.by_tier.iter();
    quotes.extend(tiers.map(|service| by_tier(service, &month, money, sheet)));
    let used = managed.by_use.iter();
    quotes.extend(used.map(|service| by_use(service, &month, prices, sheet)));
    let units = managed.by_unit.iter();
    quotes.extend(units.map(|service| by_unit(service, &month, money, sheet)));
    quotes
}

impl Month {
    fn of(
        workload: &Workload,
        load: &Load,
        traffic_gb: f64,
        prices: &Prices,
        sheet: &mut Sheet,
    ) -> Month {
        let hours = *prices.hours_per_month;
        let mut over_month = |what: &str, count: f64, unit: &str, time: Term| {
            let average = term(count, unit) * term(workload.load_factor, "of the peak");
            sheet.reckon(what, "", average * time)
        };
        let seconds = || term(hours * 3_600.0, "s");
        let minutes = || term(hours * MINUTES_PER_HOUR, "min");
        let out = load.deliveries_per_s + load.acks_per_s;
        let messages_in = over_month("messages in", load.messages_per_s, "/s", seconds());
        let messages_out = over_month("copies out", out, "/s", seconds());
        let (connections, what) = (load.connections, "connection minutes");
        let connection_minutes = over_month(what, connections, "connections", minutes());
        // Members of a room share its channel.
        let rooms = connections / workload.room.max(1.0);
        let channel_minutes = over_month("channel minutes", rooms, "rooms", minutes());
        Month {
            users: workload.users,
            connections_peak: load.connections,
            connection_minutes,
            channel_minutes,
            messages_in,
            messages_out,
            payload: workload.payload,
            traffic_gb,
        }
    }

    /// Messages of at most `kib`; a larger one counts as several.
    fn billed(&self, messages: f64, kib: f64) -> f64 {
        messages * (self.payload / (kib * KIB)).ceil().max(1.0)
    }
}

fn by_tier(service: &ByTier, month: &Month, money: &str, sheet: &mut Sheet) -> Quote {
    sheet.section(&service.name);
    let both = term(month.messages_in, "in") + term(month.messages_out, "out");
    let messages = sheet.reckon("messages", "", both);
    let a_day = term(messages, "") / term(DAYS_PER_MONTH, "days");
    let a_day = sheet.reckon("messages a day", "", a_day);
    let holds = |most: Option<Positive>, wanted: f64| most.is_none_or(|most| *most >= wanted);
    let fits = |tier: &&Tier| {
        holds(tier.connections, month.connections_peak)
            && holds(tier.messages_per_day, a_day)
            && holds(tier.users, month.users)
    };
    let fitting = service.tiers.iter().filter(fits);
    let cheapest = fitting.min_by(|a, b| a.per_month.total_cmp(&b.per_month));
    let Some(tier) = cheapest else {
        let remark = format!(
            "published tiers end below this: {} connections, {} messages a day, {} users",
            number(month.connections_peak),
            number(a_day),
            number(month.users)
        );
        return quote(&service.name, None, remark);
    };
    let per_month = sheet.given(&tier.name, *tier.per_month, money, &service.quoted());
    quote(&service.name, Some(per_month), tier.name.to_string())
}

fn by_use(service: &ByUse, month: &Month, prices: &Prices, sheet: &mut Sheet) -> Quote {
    sheet.section(&service.name);
    let money = &*prices.currency;
    if let Some(most) = service.connections_max
        && month.connections_peak > *most
    {
        let remark = format!("allows {} connections", number(*most));
        return quote(&service.name, None, remark);
    }
    let source = service.quoted();
    let fee = sheet.given("fee", *service.per_month, money, &source);
    let mut parts = vec![term(fee, "")];
    let messages = month.billed(month.messages_in + month.messages_out, *service.message_kib);
    let minutes = *service.per_million_connection_minutes;
    let channels = service
        .per_million_channel_minutes
        .map_or(0.0, |price| *price);
    let meters = [
        ("messages", messages, *service.per_million_messages),
        ("connection minutes", month.connection_minutes, minutes),
        ("channel minutes", month.channel_minutes, channels),
    ];
    for (what, count, price) in meters.into_iter().filter(|(.., price)| *price > 0.0) {
        let cost = term(count / MILLION, "million") * term(price, "a million");
        parts.push(term(sheet.reckon(what, money, cost), ""));
    }
    if service.with_egress {
        let traffic = cost::egress(month.traffic_gb, &prices.egress, money, sheet);
        parts.push(term(traffic, ""));
    }
    let total = sheet.reckon("together", money, Term::sum(parts));
    quote(&service.name, Some(total), "by use".to_owned())
}

fn by_unit(service: &ByUnit, month: &Month, money: &str, sheet: &mut Sheet) -> Quote {
    sheet.section(&service.name);
    let source = service.quoted();
    let units =
        term(month.connections_peak, "connections") / term(*service.unit_connections, "a unit");
    let units = sheet.reckon("units", "", units.up());
    if let Some(most) = service.units_max.filter(|most| units > **most) {
        let remark = format!("needs {} units, allows {}", number(units), number(*most));
        return quote(&service.name, None, remark);
    }
    sheet.given("a unit", *service.per_unit_day, "a day", &source);
    let a_day = term(units, "units") * term(*service.per_unit_day, "a day");
    let base = a_day * term(DAYS_PER_MONTH, "days");
    let base = sheet.reckon("units of a month", money, base);
    let counted = match service.outbound_only {
        true => month.messages_out,
        false => month.messages_in + month.messages_out,
    };
    let messages = month.billed(counted, *service.message_kib);
    let free = units * *service.unit_messages_per_day * DAYS_PER_MONTH;
    sheet.given("messages", messages, "", "as the service counts them");
    sheet.given("of these free", free.min(messages), "", "units × days");
    let beyond = term((messages - free).max(0.0) / MILLION, "million");
    let more = beyond * term(*service.per_million_messages, "a million");
    let more = sheet.reckon("messages beyond", money, more);
    let total = sheet.reckon("together", money, term(base, "") + term(more, ""));
    let remark = format!("{} units", number(units));
    quote(&service.name, Some(total), remark)
}

fn quote(name: &str, per_month: Option<f64>, remark: String) -> Quote {
    Quote {
        name: name.to_owned(),
        per_month,
        remark,
    }
}
