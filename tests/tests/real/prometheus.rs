//! A real Prometheus on the operator's `/metrics`: queries, alert expressions, dashboards, and the page that
//! describes the metrics.

mod alerts;
mod dashboards;
mod expression;
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use carillon_testbed::carillon::workspace;

use self::alerts::alerts;
use self::expression::{metrics_of, plain_selectors};
use self::scene::{LEADS, LIMIT, scene};

fn doc() -> String {
    fs::read_to_string(workspace().join("docs/metrics.md")).unwrap()
}

/// The queries that docs/metrics.md suggests.
fn suggested() -> Vec<String> {
    let doc = doc();
    let (_, queries) = doc.split_once("## Queries").unwrap();
    let lines = queries.lines().filter_map(|line| line.strip_prefix("    "));
    lines
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn prometheus_answers_how_long_a_sync_takes() {
    let prometheus = &scene().prometheus;
    let p99 = "histogram_quantile(0.99, sum by (le) (rate(\
               carillon_broadcastjob_sync_duration_seconds_bucket[1m]))) >= 0";
    let data = prometheus.query_until_some(p99, LIMIT).unwrap();
    let seconds = data["result"][0]["value"][1].as_str().unwrap();
    let seconds: f64 = seconds.parse().unwrap();
    // The histogram ends at 32 s; a sync of four nodes that takes that long is broken.
    assert!(seconds > 0.0 && seconds < 32.0, "{seconds}");
    let count = r#"carillon_broadcastjob_sync_duration_seconds_count{result="success"} > 0"#;
    prometheus.query_until_some(count, LIMIT).unwrap();
}

#[test]
fn prometheus_answers_when_the_next_run_of_a_cronjob_starts() {
    let prometheus = &scene().prometheus;
    // The schedule is that of a new year.
    let year = jiff::Timestamp::now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .year()
        + 1;
    let next = jiff::civil::date(year, 1, 1).to_zoned(jiff::tz::TimeZone::UTC);
    let next = next.unwrap().timestamp().as_second();
    let query = format!("carillon_cronjob_next_run_timestamp_seconds == {next}");
    prometheus.query_until_some(&query, LIMIT).unwrap();
}

#[test]
fn every_metric_and_label_that_alerts_and_documented_queries_name_is_scraped() {
    let prometheus = &scene().prometheus;
    let alerts = alerts();
    let alerts = alerts
        .values()
        .map(|rule| rule["expr"].as_str().unwrap().to_owned());
    let expressions: Vec<String> = alerts.chain(suggested()).collect();
    assert!(expressions.len() > 12, "{expressions:?}");
    let mut missing = BTreeSet::new();
    for expression in &expressions {
        let selectors = plain_selectors(expression);
        for series in metrics_of(expression).into_iter().chain(selectors) {
            let data = prometheus.query(&format!("count({series})")).unwrap();
            if data["result"].as_array().is_none_or(Vec::is_empty) {
                missing.insert(series);
            }
        }
    }
    assert!(missing.is_empty(), "not at /metrics: {missing:?}");
}

#[test]
fn every_documented_query_has_an_answer() {
    let prometheus = &scene().prometheus;
    for query in suggested() {
        prometheus.query_until_some(&query, LIMIT).unwrap();
    }
}

#[test]
fn a_standby_says_0_from_the_start_and_an_operator_without_election_says_1() {
    let scene = scene();
    assert_eq!(scene.standby_at_first.to_string(), "0");
    for (operator, series, leads) in [
        (&scene.leader, LEADS, "1"),
        (&scene.standby, LEADS, "0"),
        (
            &scene.alone,
            r#"leader_election_master_status{name=""}"#,
            "1",
        ),
    ] {
        assert_eq!(operator.metric(series).unwrap().to_string(), leads);
    }
}

/// Type and labels of a metric.
type Shape = (String, BTreeSet<String>);

/// What `/metrics` shows: by name; `le` is no label of ours.
fn shown(page: &str) -> BTreeMap<String, Shape> {
    let mut shown: BTreeMap<String, Shape> = BTreeMap::new();
    for line in page.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["#", "TYPE", name, kind] = words[..] {
            shown.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
        }
        let Some((series, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let suffixes = ["_bucket", "_sum", "_count"];
        let base = suffixes
            .iter()
            .find_map(|suffix| series.strip_suffix(suffix));
        let known = base
            .filter(|base| shown.contains_key(*base))
            .unwrap_or(series);
        let Some((_, labels)) = shown.get_mut(known) else {
            panic!("no type of {known}");
        };
        for (at, _) in rest.match_indices("=\"") {
            let start = rest[..at].rfind([',', '{', '"']).map_or(0, |at| at + 1);
            labels.insert(rest[start..at].to_owned());
        }
        labels.remove("le");
    }
    shown
}

/// What docs/metrics.md describes.
fn described() -> BTreeMap<String, Shape> {
    let code = |cell: &str| -> Vec<String> {
        let parts = cell.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let doc = doc();
    let mut described = BTreeMap::new();
    for row in doc.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" |").collect();
        let [names, kind, labels, meaning, ..] = cells[..] else {
            panic!("{row}");
        };
        assert!(names.contains('*') || meaning.len() > 3, "{row}");
        for name in code(names) {
            let kind = kind.trim_matches(['|', ' ']).to_owned();
            described.insert(name, (kind, code(labels).into_iter().collect()));
        }
    }
    described
}

#[test]
fn the_page_on_metrics_describes_exactly_what_the_operator_shows() {
    let mut shown = shown(&scene().leader.metrics().unwrap());
    shown.retain(|name, _| !name.starts_with("process_"));
    let mut described = described();
    assert!(described.remove("process_*").is_some());
    let names = |map: &BTreeMap<String, Shape>| map.keys().cloned().collect::<BTreeSet<_>>();
    let (shown_names, described_names) = (names(&shown), names(&described));
    let undocumented: Vec<_> = shown_names.difference(&described_names).collect();
    assert!(
        undocumented.is_empty(),
        "not in docs/metrics.md: {undocumented:?}"
    );
    let absent: Vec<_> = described_names.difference(&shown_names).collect();
    assert!(absent.is_empty(), "in docs/metrics.md only: {absent:?}");
    for (name, shape) in &shown {
        assert_eq!(shape, &described[name], "{name}");
    }
}
