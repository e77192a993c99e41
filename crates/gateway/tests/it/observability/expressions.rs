//! Expressions of Prometheus, as far as it takes to find the metrics in them and the labels that they choose by; and a test that
//! somebody exports all of these.

use super::dashboard::{dashboard, queries};
use super::prometheus::tls;
use super::{exporters, read};
use crate::harness::{Gateway, RawConn};
use std::collections::{BTreeMap, BTreeSet};

/// A metric in an expression, and each label with the values that are named for it.
#[derive(Debug, PartialEq)]
struct Selector {
    metric: String,
    labels: Vec<(String, Vec<String>)>,
}

/// Words after which a list of labels stands.
const LABELLED: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];

fn selectors(expression: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            rest = match first {
                '[' => behind(rest, ']'),
                _ => &rest[first.len_utf8()..],
            };
            continue;
        }
        rest = after.trim_start();
        let next = rest.split(|c| !is_of_name(c)).next().unwrap_or_default();
        if LABELLED.contains(&word) {
            rest = behind(rest, ')');
        } else if is_metric(word) && !rest.starts_with('(') && !["by", "without"].contains(&next) {
            let (inside, behind) = match rest.strip_prefix('{') {
                Some(inside) => inside.split_once('}').expect("a closing brace"),
                None => ("", rest),
            };
            rest = behind;
            found.push(Selector {
                metric: word.to_owned(),
                labels: labels(inside),
            });
        }
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '.'
}

/// Neither a number nor an operator.
fn is_metric(word: &str) -> bool {
    !word.starts_with(|c: char| c.is_ascii_digit()) && !OPERATORS.contains(&word)
}

fn behind(text: &str, end: char) -> &str {
    let (_, rest) = text.split_once(end).expect("an end of what began");
    rest
}

/// `a="x",b=~"y|z"`. A pattern with other signs names no values.
fn labels(text: &str) -> Vec<(String, Vec<String>)> {
    let parts = text.split("\",").filter(|part| !part.trim().is_empty());
    let label = |part: &str| {
        let (label, value) = part.split_once('"').expect("a value in quotes");
        let label = label.trim_end_matches(['=', '!', '~']).trim();
        let values = value.trim_end_matches('"').split('|').map(str::to_owned);
        let named = values.filter(|value| !value.contains(['.', '*', '+', '[']));
        (label.to_owned(), named.collect())
    };
    parts.map(label).collect()
}

/// Names with the values of each of their labels.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// From a page in Prometheus' text format. A metric without a sample is in it by its type.
fn exported(page: &str) -> Exported {
    let mut exported = Exported::new();
    for line in page.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').expect("a type");
            let parts: &[&str] = match kind {
                "histogram" => &["_bucket", "_count", "_sum"],
                _ => &[""],
            };
            for part in parts {
                exported.entry(format!("{name}{part}")).or_default();
            }
        } else if !line.starts_with('#') {
            for sample in selectors(line) {
                let known = exported.entry(sample.metric).or_default();
                for (label, values) in sample.labels {
                    known.entry(label).or_default().extend(values);
                }
            }
        }
    }
    exported
}

/// Where each expression of the dashboard and of the rules stands, and the expression.
fn expressions() -> Vec<(String, String)> {
    let dashboard = dashboard();
    let mut all = queries(&dashboard);
    for note in dashboard["annotations"]["list"].as_array().expect("notes") {
        let expression = note["expr"].as_str().expect("an expression");
        all.push(("an annotation".to_owned(), expression.to_owned()));
    }
    for variable in dashboard["templating"]["list"].as_array().expect("a list") {
        let Some(definition) = variable["definition"].as_str() else {
            continue;
        };
        let inside = definition.strip_prefix("label_values(");
        let of_label = inside.and_then(|inside| inside.rsplit_once(','));
        let (expression, _) = of_label.unwrap_or_else(|| panic!("{definition}"));
        all.push(("a variable".to_owned(), expression.to_owned()));
    }
    let rules = read("prometheus/alerts.yml");
    for rule in rules.split("- alert: ").skip(1) {
        let (name, rest) = rule.split_once('\n').expect("a rule of several lines");
        let lines = rest.lines().map(str::trim);
        let expressions: Vec<_> = lines
            .filter_map(|line| line.strip_prefix("expr: "))
            .collect();
        assert_eq!(expressions.len(), 1, "{name}: one expression on one line");
        all.push((name.to_owned(), expressions[0].to_owned()));
    }
    all
}

/// A panel without data looks like a gateway without trouble.
#[test]
fn every_expression_names_what_the_gateway_or_an_exporter_exports() {
    let files = tempfile::tempdir().expect("a folder");
    // Without a certificate there is no metric of its end.
    let gateway = Gateway::start(&format!("profile = \"socket.io\"\n{}", tls(files.path())));
    let request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let ours = exported(&RawConn::exchange(gateway.admin, request).body);
    let theirs = [exporters::OF_MACHINES, exporters::OF_REDIS].concat();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for (place, expression) in expressions() {
        for selector in selectors(&expression) {
            let Selector { metric, labels } = selector;
            if metric == "up" {
                continue;
            }
            if let Some(metric) = theirs.iter().find(|name| **name == metric) {
                used.insert(*metric);
                continue;
            }
            let Some(known) = ours.get(&metric) else {
                wrong.push(format!("{place}: {metric}"));
                continue;
            };
            for (label, values) in labels {
                // These two are Prometheus' own.
                if ["job", "instance"].contains(&label.as_str()) {
                    continue;
                }
                let has = |value: &String| known.get(&label).is_some_and(|all| all.contains(value));
                let strange = values.iter().filter(|value| !has(value));
                wrong.extend(strange.map(|value| format!("{place}: {metric}: {label}: {value}")));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "nobody exports this");
    let idle: Vec<_> = theirs
        .iter()
        .filter(|name| !used.contains(**name))
        .collect();
    assert_eq!(idle, Vec::<&&str>::new(), "in no expression any more");
}

#[test]
fn metrics_are_found_in_expressions() {
    let names = |expression: &str| -> Vec<String> {
        let found = selectors(expression).into_iter();
        found.map(|selector| selector.metric).collect()
    };
    assert_eq!(names("a > 1000"), ["a"]);
    assert_eq!(
        names("1 - avg by (x, y) (rate(a{b=\"c\"}[5m])) / (d > 0)"),
        ["a", "d"]
    );
    assert_eq!(
        names("sum without (x) (a) or max(b) and on (z) c unless d"),
        ["a", "b", "c", "d"]
    );
    assert_eq!(
        names("histogram_quantile(0.99, sum by (le) (rate(a_bucket[1m:10s])))"),
        ["a_bucket"]
    );
    assert_eq!(names("a - time() < 14 * 86400"), ["a"]);
    let found = selectors("rate(a{job=~\".*\",x!~\"y|z\",w=\"a b\"}[5m])");
    let values = |label: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned());
        (label.to_owned(), values.collect::<Vec<_>>())
    };
    assert_eq!(
        found[0].labels,
        [
            values("job", &[]),
            values("x", &["y", "z"]),
            values("w", &["a b"])
        ]
    );
    let page = "# TYPE h histogram\n# TYPE c counter\nc{x=\"y\"} 0\nc{x=\"z\"} 1e3\n";
    let exported = exported(page);
    assert_eq!(
        exported.keys().collect::<Vec<_>>(),
        ["c", "h_bucket", "h_count", "h_sum"]
    );
    assert_eq!(exported["c"]["x"].len(), 2);
}
