//! The dashboards of the chart: what they are made of, and that each of their queries has an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

use carillon_testbed::carillon::workspace;
use carillon_testbed::wait;
use serde_json::{Value, json};

use super::described;
use super::expression::metrics_of;
use super::scene::{EVERY, LIMIT, scene};

const NAMES: [&str; 4] = ["broadcastjob", "cronjobs", "daemonsets", "overview"];

/// The width of a dashboard.
const COLUMNS: u64 = 24;

/// What Grafana puts in the place of variables: when nothing is chosen, and when one is.
const CHOSEN: [(&str, &str); 2] = [(".*", ".*"), ("carillon", "carillon-system")];

/// What Prometheus itself makes.
const NOT_OURS: [&str; 1] = ["ALERTS"];

fn dashboards() -> BTreeMap<String, Value> {
    let files = fs::read_dir(workspace().join("charts/carillon/files/dashboards")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let dashboard = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert_eq!(path.extension().unwrap(), "json");
        (name, value)
    };
    let dashboards: BTreeMap<String, Value> = paths.map(dashboard).collect();
    let names: Vec<&str> = dashboards.keys().map(String::as_str).collect();
    assert_eq!(names, NAMES);
    dashboards
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The panels that show something.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = items(&dashboard["panels"]).iter();
    panels.filter(|panel| panel["type"] != "row")
}

/// Queries of panels: what they are for, and the expression as written.
fn queries(name: &str, dashboard: &Value) -> Vec<(String, String)> {
    let of = |panel: &Value| -> Vec<(String, String)> {
        let title = panel["title"].as_str().unwrap();
        let targets = items(&panel["targets"]).iter();
        let query = |target: &Value| {
            let id = target["refId"].as_str().unwrap();
            let expression = target["expr"].as_str().unwrap().to_owned();
            (format!("{name}: {title} ({id})"), expression)
        };
        targets.map(query).collect()
    };
    panels(dashboard).flat_map(of).collect()
}

/// Variables whose values are those of a label: name, selector, label.
fn label_values(dashboard: &Value) -> Vec<(String, String, String)> {
    let variables = items(&dashboard["templating"]["list"]).iter();
    let variables = variables.filter(|variable| variable["type"] == "query");
    let parts = |variable: &Value| {
        let name = variable["name"].as_str().unwrap().to_owned();
        let query = variable["query"]["query"].as_str().unwrap();
        let inner = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')'));
        let (selector, label) = inner.and_then(|inner| inner.rsplit_once(", ")).unwrap();
        (name, selector.to_owned(), label.to_owned())
    };
    variables.map(parts).collect()
}

/// The expression as Grafana sends it.
fn filled(expression: &str, (job, namespace): (&str, &str)) -> String {
    let filled = expression
        .replace("$__rate_interval", "5m")
        .replace("$__range", "1h")
        .replace("$job", job)
        .replace("$namespace", namespace);
    assert!(
        !filled.contains('$'),
        "a variable that nobody fills: {filled}"
    );
    filled
}

#[test]
fn each_query_of_each_dashboard_has_an_answer_that_is_a_number() {
    let prometheus = &scene().prometheus;
    let mut left: BTreeMap<(String, &str), String> = BTreeMap::new();
    for (name, dashboard) in dashboards() {
        for (what, expression) in queries(&name, &dashboard) {
            for chosen in CHOSEN {
                let query = filled(&expression, chosen);
                // A quantile of nothing is NaN, and a ratio of nothing, too: it is not equal to itself.
                let number = format!("({query}) == ({query})");
                left.insert((what.clone(), chosen.0), number);
            }
        }
    }
    assert!(left.len() > 150, "{}", left.len());
    let answered = |query: &str| -> anyhow::Result<bool> {
        let data = prometheus.query(query)?;
        Ok(!items(&data["result"]).is_empty())
    };
    let start = Instant::now();
    let probe = || {
        let mut empty = BTreeMap::new();
        for (what, query) in std::mem::take(&mut left) {
            if !answered(&query)? {
                empty.insert(what, query);
            }
        }
        left = empty;
        anyhow::ensure!(start.elapsed() < LIMIT, "without an answer: {left:#?}");
        Ok(left.is_empty().then_some(()))
    };
    wait::until(
        "each query has an answer",
        LIMIT * 2,
        EVERY * 5,
        probe,
        String::new,
    )
    .unwrap();
}

#[test]
fn each_variable_of_a_dashboard_has_values() {
    let prometheus = &scene().prometheus;
    for (name, dashboard) in dashboards() {
        let variables = label_values(&dashboard);
        let names: Vec<&str> = variables.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["namespace", "job"], "{name}");
        for (variable, selector, label) in &variables {
            let query = format!("count by ({label}) ({})", filled(selector, CHOSEN[0]));
            let data = prometheus.query_until_some(&query, LIMIT).unwrap();
            let value = data["result"][0]["metric"][label].as_str();
            let expected = if variable == "job" {
                CHOSEN[1].0
            } else {
                CHOSEN[1].1
            };
            assert_eq!(value, Some(expected), "{name}: {variable}");
        }
    }
}

/// An installation of which Prometheus has no label `namespace`, as with a plain scrape of pods.
#[test]
fn a_dashboard_that_shows_all_needs_no_label_that_a_scrape_may_lack() {
    for (name, dashboard) in dashboards() {
        for variable in items(&dashboard["templating"]["list"]) {
            if variable["type"] == "query" {
                assert_eq!(variable["allValue"], ".*", "{name}: {variable}");
                assert_eq!(variable["current"]["value"], json!(["$__all"]), "{name}");
            }
        }
        for (what, expression) in queries(&name, &dashboard) {
            assert!(
                !expression.contains("=\"$"),
                "{what}: not `=~`: {expression}"
            );
        }
    }
}

#[test]
fn each_metric_of_a_dashboard_is_described() {
    let described = described();
    for (name, dashboard) in dashboards() {
        let of_panels = queries(&name, &dashboard);
        let of_variables = label_values(&dashboard).into_iter();
        let of_variables = of_variables.map(|(name, selector, _)| (name, selector));
        for (what, expression) in of_panels.into_iter().chain(of_variables) {
            let metrics = metrics_of(&expression);
            assert!(!metrics.is_empty(), "{what}: {expression}");
            for metric in metrics {
                let base = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| metric.strip_suffix(end))
                    .unwrap_or(&metric);
                let known = described.contains_key(&metric)
                    || described
                        .get(base)
                        .is_some_and(|(kind, _)| kind == "histogram")
                    || metric.starts_with("process_")
                    || NOT_OURS.contains(&&*metric);
                assert!(known, "{what}: {metric} is not in docs/metrics.md");
            }
        }
    }
}

#[test]
fn a_dashboard_has_an_identity_of_its_own_and_lets_choose_where_its_data_is_from() {
    let mut titles = BTreeSet::new();
    for (name, dashboard) in dashboards() {
        assert_eq!(dashboard["uid"], format!("carillon-{name}"));
        assert!(dashboard["id"].is_null(), "{name}: an id is of one Grafana");
        assert!(dashboard["schemaVersion"].as_u64() >= Some(39), "{name}");
        assert!(titles.insert(dashboard["title"].to_string()), "{name}");
        let first = &dashboard["templating"]["list"][0];
        assert_eq!(
            (&first["name"], &first["type"], &first["query"]),
            (
                &json!("datasource"),
                &json!("datasource"),
                &json!("prometheus")
            ),
            "{name}"
        );
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        for panel in panels(&dashboard) {
            let targets = items(&panel["targets"]).iter();
            for asks in targets.chain([panel]) {
                assert_eq!(asks["datasource"], source, "{name}: {}", panel["title"]);
            }
        }
    }
}

#[test]
fn the_panels_of_a_dashboard_lie_side_by_side_and_say_what_they_show_in_which_unit() {
    for (name, dashboard) in dashboards() {
        let mut taken: BTreeMap<(u64, u64), String> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for panel in items(&dashboard["panels"]) {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{name}: {title}");
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            let (x, y, w, h) = (place("x"), place("y"), place("w"), place("h"));
            assert!(w > 0 && h > 0 && x + w <= COLUMNS, "{name}: {title}");
            for at in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                let other = taken.insert(at, title.to_owned());
                assert_eq!(other, None, "{name}: {title} lies on it");
            }
        }
        for panel in panels(&dashboard) {
            let what = format!("{name}: {}", panel["title"]);
            let kind = panel["type"].as_str().unwrap();
            assert!(
                ["heatmap", "stat", "table", "timeseries"].contains(&kind),
                "{what}: {kind}"
            );
            assert!(
                panel["description"]
                    .as_str()
                    .is_some_and(|text| text.len() > 8),
                "{what}"
            );
            for (what, expression) in queries(&name, &json!({"panels": [panel]})) {
                let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
                let fit = units(kind, &expression);
                assert!(
                    unit.is_some_and(|unit| fit.contains(&unit)),
                    "{what}: {unit:?}, not of {fit:?}"
                );
            }
        }
    }
}

/// The units that fit an expression.
fn units(kind: &str, expression: &str) -> &'static [&'static str] {
    let metrics = metrics_of(expression);
    if expression.contains("histogram_quantile(") {
        &["s"]
    } else if metrics.iter().any(|metric| metric.ends_with("_bytes")) {
        &["bytes"]
    } else if expression.contains("increase(") {
        &["short"]
    } else if expression.contains("rate(") && kind == "timeseries" {
        // CPU seconds per second are cores.
        &["ops", "reqps", "short"]
    } else if expression.contains(" / ") || expression.contains("_seconds") {
        &["percentunit", "s"]
    } else {
        &["short"]
    }
}
