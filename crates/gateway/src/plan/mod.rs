//! The capacity plan: from what was measured and what things cost to nodes, memory, Redis,
//! bandwidth and a month's bill, with every step of the arithmetic shown.
//!
//! `workload` asks, `measured` and `prices` know, `sizing` and `cost` compute, `instead` compares,
//! `sheet` shows; `advise` answers which transport to take.

mod advise;
mod cost;
mod instead;
mod measured;
mod prices;
mod range;
mod sheet;
mod sizing;
mod workload;

use crate::print;
use advise::Needs;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use instead::Quote;
use measured::Measured;
use prices::{Instance, Prices};
use range::AtLeast0;
use serde::Serialize;
use sheet::{Figure, Sheet, figure, number};
use sizing::{Demand, Nodes};
use std::path::PathBuf;
use workload::{Load, Workload};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PlanArgs {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// SSE, polling or WebSocket: which to take, and why.
    Advise(Needs),
    /// Print the built-in price file, to be edited and given with --prices.
    Prices,
}

#[derive(Debug, Args)]
struct Question {
    #[command(flatten)]
    workload: Workload,
    /// Measured results, of scenarios or of the suite; the first that knows a figure gives it
    /// [default: figures of this version, built in].
    #[arg(long = "result", value_name = "FILE")]
    results: Vec<PathBuf>,
    /// Whose figures to plan with, where a result holds several servers.
    #[arg(long, default_value = "sockeye", value_name = "NAME")]
    server: String,
    /// Price file [default: built in, see `plan prices`].
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Machines to use [default: the cheapest that do].
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Hours of people in a month [default: the price file's].
    #[arg(long, value_name = "HOURS")]
    people_hours: Option<AtLeast0>,
    /// Cost of an hour of work by people [default: the price file's].
    #[arg(long, value_name = "MONEY")]
    people_rate: Option<AtLeast0>,
    /// Polling to compare with: seconds between two requests.
    #[arg(long, default_value_t = 5, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    poll_seconds: u64,
    /// Header bytes of one poll.
    #[arg(long, default_value_t = advise::POLL_HEADER_BYTES, value_name = "BYTES")]
    poll_header_bytes: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// What a plan is made of.
struct Facts<'a> {
    question: &'a Question,
    measured: &'a Measured,
    prices: &'a Prices,
    load: Load,
    /// Of a month, against the peak.
    average: Figure,
}

/// The whole answer.
#[derive(Serialize)]
struct Plan<'a> {
    workload: &'a Workload,
    measured: &'a Measured,
    prices_dated: String,
    currency: &'a str,
    load: Load,
    managed: Vec<Quote>,
    other_machines: Vec<Quote>,
    #[serde(flatten)]
    sheet: Sheet,
}

/// Carries out `plan …`.
pub fn run(args: PlanArgs) -> Result<()> {
    let text = match args.other {
        Some(Other::Advise(needs)) => {
            let all = advise::advise(&needs);
            shown(needs.json, &all, advise::text(&all))?
        }
        Some(Other::Prices) => prices::BUILT_IN.to_owned(),
        None => answer(&args.question)?,
    };
    print::print(text)
}

fn answer(question: &Question) -> Result<String> {
    let measured = match &*question.results {
        [] => Measured::built_in()?,
        results => Measured::load(results, &question.server)?,
    };
    let mut prices = Prices::load(question.prices.as_deref())?;
    let people = &mut prices.people;
    if let Some(hours) = &question.people_hours {
        people.hours_per_month = hours.clone();
    }
    if let Some(rate) = &question.people_rate {
        people.per_hour = rate.clone();
    }
    let plan = plan(question, &measured, &prices)?;
    shown(question.json, &plan, plan.text())
}

fn shown(json: bool, answer: &impl Serialize, text: String) -> Result<String> {
    Ok(match json {
        true => serde_json::to_string_pretty(answer)? + "\n",
        false => text,
    })
}

fn plan<'a>(
    question: &'a Question,
    measured: &'a Measured,
    prices: &'a Prices,
) -> Result<Plan<'a>> {
    let workload = &question.workload;
    let mut sheet = Sheet::new(&prices.currency);
    let load = workload.load(&mut sheet);
    let facts = Facts {
        question,
        measured,
        prices,
        load,
        average: figure(*workload.load_factor, "of the peak on average"),
    };
    let demand = sizing::demand(&facts, &mut sheet)?;
    let (instance, other_machines) = choose(&facts, &demand)?;
    let nodes = demand.nodes(instance, &mut sheet).with_context(|| {
        let any = "any instance of the price file, not even ";
        let any = question.instance.as_ref().map_or(any, |_| "");
        format!("cannot carry this with {any}{}", instance.name)
    })?;
    let redis = demand.redis(nodes.count, &mut sheet)?;
    let traffic_gb = cost::bill(&facts, nodes.per_month, redis, &mut sheet);
    instead::polling(&facts, &mut sheet);
    Ok(Plan {
        workload,
        measured,
        prices_dated: prices.dated.to_string(),
        currency: &prices.currency,
        load,
        managed: instead::quotes(&facts, traffic_gb, &mut sheet),
        other_machines,
        sheet,
    })
}

/// The wanted machine, or the one whose month is cheapest; and what the others would cost.
fn choose<'a>(facts: &Facts<'a>, demand: &Demand) -> Result<(&'a Instance, Vec<Quote>)> {
    let instances = facts.prices.instances.iter();
    let nodes = |one| demand.nodes(one, &mut Sheet::default());
    let tried: Vec<(&Instance, Result<Nodes>)> = instances.map(|one| (one, nodes(one))).collect();
    let month = |nodes: &Result<Nodes>| match nodes {
        Ok(nodes) => nodes.per_month.value,
        Err(_) => f64::INFINITY,
    };
    // If none will do, the largest is the one to speak of: the others lack more.
    let best = tried.iter().min_by(|(one, a), (other, b)| {
        let larger = other.vcpus.total_cmp(&one.vcpus);
        month(a).total_cmp(&month(b)).then(larger)
    });
    let chosen = match &facts.question.instance {
        Some(name) => facts.prices.instance(name)?,
        None => best.context("cannot choose a machine: none is priced")?.0,
    };
    let others = tried.iter().filter(|(one, _)| one.name != chosen.name);
    let others = others.map(|(one, nodes)| Quote {
        name: one.name.to_string(),
        per_month: nodes.as_ref().ok().map(|nodes| nodes.per_month),
        remark: match nodes {
            Ok(nodes) => nodes.count.to_string(),
            Err(why) => why.to_string(),
        },
    });
    Ok((chosen, others.collect()))
}

impl Plan<'_> {
    /// The answer in one screen; the arithmetic follows it.
    fn text(&self) -> String {
        let (load, users) = (&self.load, number(*self.workload.users));
        let peak = [load.connections, load.messages_per_s, load.deliveries_per_s].map(Figure::bare);
        let [connections, messages, deliveries] = peak;
        let (answers, arithmetic) = (self.sheet.answers(), self.sheet.arithmetic());
        let (dated, money) = (&self.prices_dated, self.currency);
        let [managed, others] = [&self.managed, &self.other_machines].map(|all| quotes(all));
        format!(
            "{users} users, {connections} connected at the peak, {messages} messages/s in, {deliveries} deliveries/s\n{answers}\n\
             Managed services, a month with people:\n{managed}Other machines, a month:\n{others}\n\
             Prices of {dated} in {money}, without tax. Not in it: traffic between zones, disks, logs, support, other environments.\n\
             {arithmetic}"
        )
    }
}

fn quotes(all: &[Quote]) -> String {
    let line = |quote: &Quote| {
        let Quote { name, remark, .. } = quote;
        let price = quote.per_month.map(|price| price.rounded().to_string());
        let price = price.unwrap_or("–".to_owned());
        format!("  {name:<26} {price:>12}  {remark}\n")
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
