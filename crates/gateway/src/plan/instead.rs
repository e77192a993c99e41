//! Owns the comparison with what one could do instead: polling by a timer, and managed services, each by its own way of counting.

use super::prices::{Managed, Tier};
use super::range::AtLeast0;
use super::sheet::{Figure, MONEY, Sheet, Term, figure, number};
use super::{Facts, cost};
use serde::Serialize;

const DAYS: Figure = figure(365.0 / 12.0, "days");
const MILLION: Figure = figure(1e6, "a million");

/// The same users asking again and again. Whole numbers below 2^53 come out exactly.
pub fn polling(facts: &Facts, sheet: &mut Sheet) {
    sheet.section("The same by polling");
    let (day, gb) = (figure(86_400.0, "s"), figure(1e9, "B/GB"));
    let every = figure(facts.question.poll_seconds as f64, "s");
    let header = figure(facts.question.poll_header_bytes as f64, "B");
    let users = facts.load.connections * facts.average;
    let users = sheet.derive("users who ask", "users", users);
    let requests = (users * day / every).down();
    let requests = sheet.derive("requests a day", "requests", requests);
    let headers = sheet.derive("headers a day", "B", requests * header);
    let headers = sheet.derive("that is", "GB", headers / gb);
    let late = every / figure(2.0, "");
    let late = sheet.derive("news is late on average by", "s", late);
    let pushed = facts.load.bytes_out_per_s * facts.average * day / gb;
    let pushed = sheet.derive("connections send instead, in a day", "GB", pushed);
    sheet.answer("polling", format!("every {every} it would be {requests} a day with {headers} of headers, news {late} late; connections: {pushed} a day in all"));
}

/// What a service or a machine would cost instead.
#[derive(Clone, Debug, Serialize)]
pub struct Quote {
    pub name: String,
    /// `None` where it does not offer that much.
    pub per_month: Option<Figure>,
    pub remark: String,
}

/// A month as services count it.
struct Month<'a> {
    facts: &'a Facts<'a>,
    connection_minutes: Figure,
    channel_minutes: Figure,
    messages: Figure,
    messages_out: Figure,
    messages_per_day: Figure,
    traffic_gb: Figure,
}

pub fn quotes(facts: &Facts, traffic_gb: Figure, sheet: &mut Sheet) -> Vec<Quote> {
    sheet.section("Managed services: the month as they count it");
    let month = Month::of(facts, traffic_gb, sheet);
    let prices = facts.prices;
    let people = cost::people(*prices.people.managed_hours_per_month, prices, sheet);
    let mut quotes = Vec::new();
    for service in &prices.managed {
        sheet.section(&service.name);
        let (per_month, remark) = match month.tier(service) {
            Some((tier, count)) => {
                let bill = month.bill(service, tier, count, sheet);
                let all = sheet.derive("with people", MONEY, bill + people);
                let times = (count > 1.0).then(|| format!("{} × ", number(count)));
                (Some(all), times.unwrap_or_default() + &tier.name)
            }
            None => (None, "no published tier holds this month".to_owned()),
        };
        let name = service.name.to_string();
        quotes.push(Quote {
            name,
            per_month,
            remark,
        });
    }
    quotes
}

impl<'a> Month<'a> {
    fn of(facts: &'a Facts<'a>, traffic_gb: Figure, sheet: &mut Sheet) -> Month<'a> {
        let (load, hours) = (&facts.load, *facts.prices.hours_per_month);
        let (minutes, seconds) = (figure(hours * 60.0, "min"), figure(hours * 3_600.0, "s"));
        let mut over = |what, rate: Term, time| sheet.derive(what, "", rate * facts.average * time);
        // Members of a room share its channel.
        let rooms = load.connections / figure(facts.question.workload.room.max(1.0), "members");
        let connection_minutes = over("connection minutes", load.connections.into(), minutes);
        let channel_minutes = over("channel minutes", rooms, minutes);
        let messages_in = over("messages in", load.messages_per_s.into(), seconds);
        let out = figure(load.deliveries_per_s.value + load.acks_per_s.value, "/s");
        let messages_out = over("copies out", out.into(), seconds);
        let messages = messages_in.called("in") + messages_out.called("out");
        let messages = sheet.derive("messages", "messages", messages);
        Month {
            facts,
            connection_minutes,
            channel_minutes,
            messages,
            messages_out,
            messages_per_day: sheet.derive("messages a day", "", messages / DAYS),
            traffic_gb,
        }
    }

    /// The cheapest that holds the month, and how many of it.
    fn tier<'b>(&self, service: &'b Managed) -> Option<(&'b Tier, f64)> {
        let (load, users) = (&self.facts.load, *self.facts.question.workload.users);
        let fitting = service.tiers.iter().filter_map(|tier| {
            let each = figure(*tier.connections, "each");
            let count = (load.connections / each).up().figure("").value;
            let fits = count <= *tier.count_max
                && self.messages_per_day.value <= *tier.messages_per_day
                && users <= *tier.users;
            fits.then_some((tier, count.max(1.0)))
        });
        fitting.min_by(|a, b| (*a.0.per_month * a.1).total_cmp(&(*b.0.per_month * b.1)))
    }

    fn bill(&self, service: &Managed, tier: &Tier, count: f64, sheet: &mut Sheet) -> Figure {
        let fee = sheet.given(&tier.name, *tier.per_month, MONEY, &service.origin);
        let count = figure(count, "of it");
        let mut parts = vec![sheet.derive("fee", MONEY, fee * count)];
        let mut billed = self.counted(service, sheet);
        if *tier.free_messages_per_day > 0.0 {
            let free = count * figure(*tier.free_messages_per_day, "a day") * DAYS;
            let free = sheet.derive("free messages", "", free);
            billed.value = (billed.value - free.value).max(0.0);
        }
        let mut by_use = |what, amount: Figure, price: &AtLeast0| {
            if **price > 0.0 {
                let cost = amount / MILLION * figure(**price, "");
                parts.push(sheet.derive(what, MONEY, cost));
            }
        };
        let (minutes, channels) = (self.connection_minutes, self.channel_minutes);
        by_use("messages", billed, &service.per_million_messages);
        by_use(
            "connection minutes",
            minutes,
            &service.per_million_connection_minutes,
        );
        by_use(
            "channel minutes",
            channels,
            &service.per_million_channel_minutes,
        );
        if service.with_egress {
            let egress = &self.facts.prices.egress;
            parts.push(cost::egress(self.traffic_gb, egress, sheet));
        }
        sheet.derive("together", MONEY, Term::sum(parts))
    }

    /// Messages of at most so much as the service counts by; a larger one is several.
    fn counted(&self, service: &Managed, sheet: &mut Sheet) -> Figure {
        let messages = match service.outbound_only {
            true => self.messages_out,
            false => self.messages,
        };
        let parts = *self.facts.question.workload.payload / (*service.message_kib * 1_024.0);
        let parts = figure(parts.ceil().max(1.0), "each");
        sheet.derive("messages as it counts them", "", messages * parts)
    }
}
