//! Owns the comparison with managed services: what each would bill for the same month, by its own
//! way of counting, or why it does not offer that much.

use super::prices::{ByTier, ByUnit, ByUse, Tier};
use super::range::Positive;
use super::sheet::{Figure, MONEY, Sheet, Term, figure, number};
use super::{Facts, cost};
use serde::Serialize;

const DAYS: Figure = figure(365.0 / 12.0, "days");
const MILLION: Figure = figure(1e6, "a million");

/// What a service or a machine would cost instead.
#[derive(Clone, Debug, Serialize)]
pub struct Quote {
    pub name: String,
    /// `None` where it does not offer that much.
    pub per_month: Option<Figure>,
    pub remark: String,
}

impl Quote {
    pub fn new(name: &str, (per_month, remark): (Option<Figure>, String)) -> Quote {
        let name = name.to_owned();
        Quote {
            name,
            per_month,
            remark,
        }
    }
}

/// A price with a remark, or why there is none.
type Offer = Result<(Figure, String), String>;

/// A month as services count it.
struct Month<'a> {
    facts: &'a Facts<'a>,
    connection_minutes: Figure,
    channel_minutes: Figure,
    messages_in: Figure,
    messages_out: Figure,
    traffic_gb: Figure,
}

pub fn quotes(facts: &Facts, traffic_gb: Figure, sheet: &mut Sheet) -> Vec<Quote> {
    sheet.section("Managed services: the month as they count it");
    let month = Month::of(facts, traffic_gb, sheet);
    let prices = facts.prices;
    let people = cost::people(*prices.people.managed_hours_per_month, prices, sheet);
    let mut quotes = Vec::new();
    let mut quote = |name: &str, sheet: &mut Sheet, of: &dyn Fn(&mut Sheet) -> Offer| {
        sheet.section(name);
        let offer = of(sheet).map(|(price, remark)| {
            let price = sheet.reckon("with people", MONEY, price + people);
            (Some(price), remark)
        });
        quotes.push(Quote::new(name, offer.unwrap_or_else(|why| (None, why))));
    };
    for service in &prices.managed.by_tier {
        quote(&service.name, sheet, &|sheet| month.by_tier(service, sheet));
    }
    for service in &prices.managed.by_use {
        quote(&service.name, sheet, &|sheet| month.by_use(service, sheet));
    }
    for service in &prices.managed.by_unit {
        quote(&service.name, sheet, &|sheet| month.by_unit(service, sheet));
    }
    quotes
}

impl<'a> Month<'a> {
    fn of(facts: &'a Facts, traffic_gb: Figure, sheet: &mut Sheet) -> Month<'a> {
        let (load, hours) = (&facts.load, *facts.prices.hours_per_month);
        let (minutes, seconds) = (figure(hours * 60.0, "min"), figure(hours * 3_600.0, "s"));
        let mut over =
            |what, rate: Term, time| sheet.reckon(what, "", rate * facts.average() * time);
        // Members of a room share its channel.
        let rooms = load.connections / figure(facts.question.workload.room.max(1.0), "members");
        let out = figure(load.deliveries_per_s.value + load.acks_per_s.value, "/s");
        Month {
            facts,
            connection_minutes: over("connection minutes", load.connections.into(), minutes),
            channel_minutes: over("channel minutes", rooms, minutes),
            messages_in: over("messages in", load.messages_per_s.into(), seconds),
            messages_out: over("copies out", out.into(), seconds),
            traffic_gb,
        }
    }

    /// Messages of at most `kib`; a larger one counts as several.
    fn billed(&self, messages: f64, kib: f64) -> f64 {
        let parts = *self.facts.question.workload.payload / (kib * 1_024.0);
        messages * parts.ceil().max(1.0)
    }

    fn messages(&self) -> Term {
        self.messages_in.called("in") + self.messages_out.called("out")
    }

    fn by_tier(&self, service: &ByTier, sheet: &mut Sheet) -> Offer {
        let messages = sheet.reckon("messages", "messages", self.messages());
        let a_day = sheet.reckon("messages a day", "", messages / DAYS);
        let connections = self.facts.load.connections.value;
        let users = *self.facts.question.workload.users;
        let holds = |most: &Option<Positive>, all| most.as_ref().is_none_or(|most| **most >= all);
        let fits = |tier: &&Tier| {
            holds(&tier.connections, connections)
                && holds(&tier.messages_per_day, a_day.value)
                && holds(&tier.users, users)
        };
        let fitting = service.tiers.iter().filter(fits);
        let cheapest = fitting.min_by(|a, b| a.per_month.total_cmp(&b.per_month));
        let tier = cheapest.ok_or_else(|| {
            let [connections, a_day, users] = [connections, a_day.value, users].map(number);
            format!("published tiers end below this: {connections} connections, {a_day} messages a day, {users} users")
        })?;
        let price = figure(*tier.per_month, MONEY);
        let price = sheet.given(&tier.name, price, &service.origin);
        Ok((price, tier.name.to_string()))
    }

    fn by_use(&self, service: &ByUse, sheet: &mut Sheet) -> Offer {
        let most = service.connections_max.as_ref();
        if let Some(most) = most.filter(|most| self.facts.load.connections.value > ***most) {
            return Err(format!("allows {} connections", number(**most)));
        }
        let fee = figure(*service.per_month, MONEY);
        let mut parts = vec![sheet.given("fee", fee, &service.origin)];
        let messages = self.messages().figure("").value;
        let channels = service.per_million_channel_minutes.as_ref();
        let minutes = [self.connection_minutes, self.channel_minutes].map(|minutes| minutes.value);
        let counts = [
            self.billed(messages, *service.message_kib),
            minutes[0],
            minutes[1],
        ];
        let prices = [
            *service.per_million_messages,
            *service.per_million_connection_minutes,
            channels.map_or(0.0, |price| **price),
        ];
        let names = ["messages", "connection minutes", "channel minutes"];
        for ((what, count), price) in names.into_iter().zip(counts).zip(prices) {
            if price > 0.0 {
                let cost = figure(count, "") / MILLION * figure(price, "");
                parts.push(sheet.reckon(what, MONEY, cost));
            }
        }
        if service.with_egress {
            let egress = &self.facts.prices.egress;
            parts.push(cost::egress(self.traffic_gb, egress, sheet));
        }
        let total = sheet.reckon("together", MONEY, Term::sum(parts));
        Ok((total, "by use".to_owned()))
    }

    fn by_unit(&self, service: &ByUnit, sheet: &mut Sheet) -> Offer {
        let units = self.facts.load.connections / figure(*service.unit_connections, "a unit");
        let units = sheet.reckon("units", "units", units.up());
        let most = service.units_max.as_ref();
        if let Some(most) = most.filter(|most| units.value > ***most) {
            return Err(format!("needs {units}, allows {}", number(**most)));
        }
        let price = figure(*service.per_unit_day, "a day");
        sheet.given("a unit", price, &service.origin);
        let base = sheet.reckon("units of a month", MONEY, units * price * DAYS);
        let counted = match service.outbound_only {
            true => self.messages_out.value,
            false => self.messages().figure("").value,
        };
        let messages = self.billed(counted, *service.message_kib);
        let told = "as the service counts them";
        sheet.given("messages", figure(messages, ""), told);
        let free = units * figure(*service.unit_messages_per_day, "a day") * DAYS;
        let free = sheet.reckon("free messages", "", free);
        let beyond = figure((messages - free.value).max(0.0), "") / MILLION;
        let more = beyond * figure(*service.per_million_messages, "");
        let more = sheet.reckon("messages beyond", MONEY, more);
        let total = sheet.reckon("together", MONEY, base + more);
        Ok((total, units.to_string()))
    }
}
