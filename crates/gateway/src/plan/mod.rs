//! The capacity plan: from what was measured and what things cost to nodes, memory, Redis,
//! bandwidth and a month's bill, with every step of the arithmetic shown.
//!
//! `workload` asks, `measured` and `prices` know, `sizing` and `cost` reckon, `polling` and
//! `managed` compare, `sheet` shows; `advise` answers which transport to take.

pub mod advise;
pub mod cost;
pub mod managed;
pub mod measured;
pub mod polling;
pub mod prices;
mod range;
pub mod sheet;
pub mod sizing;
pub mod workload;

use advise::Needs;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use cost::Bill;
use managed::Quote;
use measured::Measured;
use polling::Polling;
use prices::{Instance, Prices};
use range::AtLeast0;
use serde::Serialize;
use sheet::{Sheet, number};
use sizing::{Demand, Nodes, Redis};
use std::io::Write;
use std::path::PathBuf;
use units::grouped;
use workload::{Load, Workload};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PlanArgs {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    size: SizeArgs,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// SSE, polling or WebSocket: which to take, and why.
    Advise(Needs),
    /// Print the built-in price file, to be edited and given with --prices.
    Prices,
}

#[derive(Debug, Args)]
struct SizeArgs {
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
    people_hours: Option<f64>,
    /// Cost of an hour of work by people [default: the price file's].
    #[arg(long, value_name = "MONEY")]
    people_rate: Option<f64>,
    /// Polling to compare with: seconds between two requests.
    #[arg(long, default_value_t = 5, value_name = "S")]
    poll_seconds: u64,
    /// Header bytes of one poll.
    #[arg(long, default_value_t = advise::POLL_HEADER_BYTES, value_name = "BYTES")]
    poll_header_bytes: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub workload: Workload,
    pub measured: Measured,
    pub prices_dated: String,
    pub currency: String,
    pub load: Load,
    pub nodes: Nodes,
    /// What other machines would cost a month; `Err` text where they cannot carry it.
    pub other_machines: Vec<(String, Result<f64, String>)>,
    pub redis: Redis,
    pub bill: Bill,
    pub polling: Polling,
    pub managed: Vec<Quote>,
    /// What managed services need in people a month.
    pub managed_people: f64,
    pub arithmetic: Sheet,
}

/// Carries out `plan …`.
pub fn run(args: PlanArgs) -> Result<()> {
    match args.other {
        Some(Other::Advise(needs)) => run_advise(&needs),
        Some(Other::Prices) => {
            show(prices::BUILT_IN);
            Ok(())
        }
        None => run_size(args.size),
    }
}

fn run_advise(needs: &Needs) -> Result<()> {
    let all = advise::advise(needs)?;
    show(&match needs.json {
        true => serde_json::to_string_pretty(&all)? + "\n",
        false => advise::text(&all),
    });
    Ok(())
}

/// A reader who stops at the beginning is no failure.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn run_size(args: SizeArgs) -> Result<()> {
    let measured = match &*args.results {
        [] => Measured::built_in()?,
        results => Measured::load(results, &args.server)?,
    };
    let mut prices = Prices::load(args.prices.as_deref())?;
    override_people(&mut prices, &args)?;
    let question = Question {
        workload: args.workload,
        instance: args.instance,
        poll_seconds: args.poll_seconds,
        poll_header_bytes: args.poll_header_bytes,
    };
    let plan = plan(&question, &measured, &prices)?;
    show(&match args.json {
        true => serde_json::to_string_pretty(&plan)? + "\n",
        false => plan.summary() + &plan.arithmetic.text(),
    });
    Ok(())
}

fn override_people(prices: &mut Prices, args: &SizeArgs) -> Result<()> {
    let people = &mut prices.people;
    let (hours, rate) = (&mut people.hours_per_month, &mut people.per_hour);
    let given = [
        ("--people-hours", args.people_hours, hours),
        ("--people-rate", args.people_rate, rate),
    ];
    for (flag, given, field) in given {
        let Some(given) = given else { continue };
        let checked = AtLeast0::try_from(given).map_err(anyhow::Error::msg);
        *field = checked.with_context(|| format!("cannot plan with {flag} {given}"))?;
    }
    Ok(())
}

/// What is asked beyond prices and measurements.
#[derive(Clone, Debug)]
pub struct Question {
    pub workload: Workload,
    pub instance: Option<String>,
    pub poll_seconds: u64,
    pub poll_header_bytes: u64,
}

pub fn plan(question: &Question, measured: &Measured, prices: &Prices) -> Result<Plan> {
    let workload = &question.workload;
    workload.check()?;
    let mut sheet = Sheet::default();
    let load = workload.load(&mut sheet);
    let demand = sizing::demand(workload, &load, measured, &prices.sizing, &mut sheet)?;
    let (instance, other_machines) = choose(&demand, question.instance.as_deref(), prices)?;
    let nodes = sizing::nodes(&demand, instance, prices, &mut sheet)?;
    let redis = sizing::redis(workload, &load, nodes.count, prices, &mut sheet)?;
    let bill = cost::bill(workload, &load, &nodes, &redis, prices, &mut sheet)?;
    let polling = polling::compare(
        &load,
        workload.load_factor,
        question.poll_seconds,
        question.poll_header_bytes,
        &mut sheet,
    )?;
    let managed = managed::quotes(workload, &load, bill.traffic_gb, prices, &mut sheet);
    Ok(Plan {
        workload: workload.clone(),
        measured: measured.clone(),
        prices_dated: prices.dated.to_string(),
        currency: prices.currency.to_string(),
        load,
        nodes,
        other_machines,
        redis,
        bill,
        polling,
        managed,
        managed_people: *prices.people.managed_hours_per_month * *prices.people.per_hour,
        arithmetic: sheet,
    })
}

type Alternatives = Vec<(String, Result<f64, String>)>;

/// The wanted machine, or the one whose month is cheapest; and what the others would cost.
fn choose<'a>(
    demand: &Demand,
    wanted: Option<&str>,
    prices: &'a Prices,
) -> Result<(&'a Instance, Alternatives)> {
    let month = |instance: &Instance| {
        sizing::nodes(demand, instance, prices, &mut Sheet::default()).map(|nodes| nodes.per_month)
    };
    let instances = prices.instances.iter();
    let priced: Vec<_> = instances
        .map(|instance| (instance, month(instance)))
        .collect();
    let chosen = match wanted {
        Some(name) => prices.instance(name)?,
        None => {
            let able = priced
                .iter()
                .filter_map(|(instance, month)| Some((*instance, *month.as_ref().ok()?)));
            let cheapest = able.min_by(|a, b| a.1.total_cmp(&b.1));
            cheapest.ok_or_else(|| none_will_do(&priced))?.0
        }
    };
    let others = priced
        .into_iter()
        .filter(|(instance, _)| *instance.name != *chosen.name)
        .map(|(instance, month)| {
            let month = month.map_err(|error| error.to_string());
            (instance.name.to_string(), month)
        });
    Ok((chosen, others.collect()))
}

/// What the largest machine lacks, the others lack more.
fn none_will_do(priced: &[(&Instance, Result<f64>)]) -> anyhow::Error {
    let largest = priced
        .iter()
        .max_by(|(a, _), (b, _)| a.vcpus.total_cmp(&b.vcpus));
    let why = largest.and_then(|(_, month)| month.as_ref().err());
    let why = why.map(|error| error.to_string()).unwrap_or_default();
    let why = why.strip_prefix(sizing::CANNOT_CARRY).unwrap_or(&why);
    anyhow::anyhow!("cannot carry this with any instance of the price file, not even {why}")
}

impl Plan {
    /// The answer in one screen; the arithmetic follows it.
    fn summary(&self) -> String {
        let (load, money) = (&self.load, &self.currency);
        let [users, connections] = [self.workload.users, load.connections].map(number);
        let [messages, deliveries] = [load.messages_per_s, load.deliveries_per_s].map(number);
        let mut out = format!(
            "{users} users, {connections} connected at the peak, {messages} messages/s in, {deliveries} deliveries/s\n"
        );
        for (what, text) in [
            ("nodes", self.nodes_text()),
            ("memory", self.memory_text()),
            ("Redis", self.redis_text()),
            ("bandwidth", self.bandwidth_text()),
            ("cost", self.cost_text()),
            ("target", self.target_text()),
            ("polling", self.polling_text()),
        ] {
            out.push_str(&format!("  {what:<10} {text}\n"));
        }
        out.push_str(&self.comparisons());
        let dated = &self.prices_dated;
        out.push_str(&format!(
            "Prices of {dated} in {money}, without tax. Not in it: traffic between zones, disks, logs, \
             support, other environments.\n"
        ));
        out
    }

    fn nodes_text(&self) -> String {
        let nodes = &self.nodes;
        let [count, needed] = [nodes.count, nodes.needed].map(number);
        let [busy, after] = [nodes.cpu_share, nodes.cpu_share_after_failure].map(percent);
        let instance = &nodes.instance;
        format!(
            "{count} × {instance} ({needed} needed, one may fail): processors {busy} % busy, {after} % after a failure"
        )
    }

    fn memory_text(&self) -> String {
        let nodes = &self.nodes;
        let [gib, connections] = [nodes.memory_gib_each, nodes.connections_each].map(number);
        let [used, after] = [nodes.memory_share, nodes.memory_share_after_failure].map(percent);
        format!(
            "{gib} GiB a node with {connections} connections each ({used} % of it; {after} % after a failure)"
        )
    }

    fn redis_text(&self) -> String {
        let redis = &self.redis;
        let all = number(redis.masters + redis.replicas);
        let [masters, replicas] = [redis.masters, redis.replicas].map(number);
        let [messages, gib] = [redis.messages_per_s, redis.memory_gib].map(number);
        let node = &redis.node;
        format!(
            "{all} × {node} ({masters} masters, {replicas} replicas): {messages} messages/s, {gib} GiB"
        )
    }

    fn bandwidth_text(&self) -> String {
        let [megabits, gb] = [self.load.bytes_out_per_s * 8e-6, self.bill.traffic_gb].map(number);
        format!("{megabits} Mbit/s at the peak, {gb} GB a month")
    }

    fn cost_text(&self) -> String {
        let bill = &self.bill;
        let parts = [
            bill.together,
            bill.machines,
            bill.redis,
            bill.load_balancer,
            bill.traffic,
            bill.people,
        ];
        let [together, machines, redis, balancer, traffic, people] =
            parts.map(|part| number(part.round()));
        let money = &self.currency;
        format!(
            "{together} {money} a month: machines {machines}, Redis {redis}, balancer {balancer}, traffic {traffic}, people {people}"
        )
    }

    fn target_text(&self) -> String {
        let (bill, money) = (&self.bill, &self.currency);
        let (each, target) = (bill.infrastructure_per_user, bill.target_per_user);
        let verdict = match bill.meets_target {
            true => "meets".to_owned(),
            false => format!("is {} times", number(each / target)),
        };
        let [each, target, all] = [each, target, bill.together_per_user].map(number);
        format!(
            "{each} {money} by user and month {verdict} the target of {target}; {all} with people"
        )
    }

    fn polling_text(&self) -> String {
        let polling = &self.polling;
        let requests = grouped(polling.requests_per_day);
        let headers = number(polling.header_bytes_per_day as f64 / 1e9);
        let [late, pushed] = [polling.delay_s, polling.pushed_gb_per_day].map(number);
        let every = polling.every_s;
        format!(
            "every {every} s it would be {requests} requests a day with {headers} GB of headers, news {late} s late; \
             connections: {pushed} GB a day in all"
        )
    }

    fn comparisons(&self) -> String {
        let mut out = String::from("\nManaged services, a month with people:\n");
        for quote in &self.managed {
            let price = match quote.per_month {
                Some(price) => number((price + self.managed_people).round()),
                None => "–".to_owned(),
            };
            out.push_str(&format!(
                "  {:<26} {price:>12}  {}\n",
                quote.name, quote.remark
            ));
        }
        out.push_str("Other machines, a month:\n");
        for (name, month) in &self.other_machines {
            let text = match month {
                Ok(month) => number(month.round()),
                Err(why) => why.clone(),
            };
            out.push_str(&format!("  {name:<26} {text:>12}\n"));
        }
        out.push('\n');
        out
    }
}

fn percent(share: f64) -> String {
    number((share * 1_000.0).round() / 10.0)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
