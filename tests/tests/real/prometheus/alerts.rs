//! The alerts of the chart: on a real Prometheus, and by promtool on made-up series.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};

use carillon_testbed::carillon::workspace;
use carillon_testbed::{tools, wait};
use serde_json::Value;

use super::scene::{EVERY, LIMIT, scene};

pub(super) fn alerts_text() -> String {
    fs::read_to_string(workspace().join("charts/carillon/files/alerts.yaml")).unwrap()
}

/// The alerts: name and rule.
pub(super) fn alerts() -> BTreeMap<String, Value> {
    let file: Value = serde_saphyr::from_str(&alerts_text()).unwrap();
    let groups = file["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules
        .map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule.clone()))
        .collect()
}

#[test]
fn prometheus_loads_every_alert_of_the_chart_and_evaluates_it_without_an_error() {
    let prometheus = &scene().prometheus;
    let wanted: BTreeSet<String> = alerts().into_keys().collect();
    let probe = || {
        let rules = prometheus.rules()?;
        let groups = rules["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.iter().filter_map(|group| group["rules"].as_array());
        let rules: Vec<&Value> = rules.flatten().collect();
        let healthy = rules.iter().filter(|rule| rule["health"] == "ok");
        let healthy: BTreeSet<String> = healthy
            .filter_map(|rule| rule["name"].as_str().map(str::to_owned))
            .collect();
        Ok((healthy == wanted).then_some(()))
    };
    let hint = || format!("{:#}", prometheus.rules().unwrap_or_default());
    wait::until("all alerts are healthy", LIMIT, EVERY, probe, hint).unwrap();
}

#[test]
fn prometheus_answers_a_query_for_each_alert_expression_and_only_the_true_ones_have_a_result() {
    let prometheus = &scene().prometheus;
    // node-0003 is cordoned, and each job that has not ended leaves it out.
    let reason = r#"carillon_broadcastjob_refused_nodes{reason="NodeUnschedulable"} == 3"#;
    prometheus.query_until_some(reason, LIMIT).unwrap();
    // The DaemonSet that stalls.
    let stalled = r#"carillon_daemonsets{state="stalled"} == 1"#;
    prometheus.query_until_some(stalled, LIMIT).unwrap();
    // The one whose pods never start.
    let unavailable = "carillon_daemonsets_unavailable == 1";
    prometheus.query_until_some(unavailable, LIMIT).unwrap();
    for (name, rule) in alerts() {
        let data = prometheus.query(rule["expr"].as_str().unwrap()).unwrap();
        let result = data["result"].as_array().unwrap();
        if name == "CarillonBroadcastJobNodesRefused" {
            assert_eq!(result.len(), 1, "{result:?}");
            assert_eq!(result[0]["metric"]["reason"], "NodeUnschedulable");
        } else if name.starts_with("CarillonDaemonSet") {
            assert_eq!(result.len(), 1, "{result:?}");
            assert_eq!(result[0]["value"][1], "1", "{result:?}");
        } else if name == "CarillonSyncErrors" {
            // Of so few syncs those whose pods a quota refuses are more than a tenth, for a while.
            assert!(result.len() < 2, "{result:?}");
        } else {
            assert!(result.is_empty(), "{name} on a healthy cluster: {result:?}");
        }
    }
}

#[test]
fn every_alert_says_what_it_means_and_has_a_runbook() {
    for (name, rule) in alerts() {
        let annotation = |key: &str| rule["annotations"][key].as_str().unwrap_or_default();
        assert!(!annotation("summary").is_empty(), "{name}");
        assert!(!annotation("description").is_empty(), "{name}");
        let expected = format!("https://carillon.dev/docs/runbooks/{name}.md");
        assert_eq!(annotation("runbook_url"), expected);
        let page = workspace().join(format!("docs/runbooks/{name}.md"));
        assert!(page.is_file(), "no {}", page.display());
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}"
        );
    }
    for page in fs::read_dir(workspace().join("docs/runbooks")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let name = name.trim_end_matches(".md");
        assert!(alerts().contains_key(name), "no alert {name}");
    }
}

/// The file of promtool's tests.
const CASES: &str = "tests/alerts.test.yaml";

/// What promtool says of a file.
fn promtool(args: &[&str], file: &str) -> String {
    let mut command = Command::new(tools::promtool().unwrap());
    command.args(args).arg(workspace().join(file));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn promtool_finds_nothing_wrong_with_the_alerts() {
    let args = ["check", "rules", "--lint=all", "--lint-fatal"];
    let said = promtool(&args, "charts/carillon/files/alerts.yaml");
    assert!(
        said.contains(&format!("{} rules found", alerts().len())),
        "{said}"
    );
}

#[test]
fn each_alert_fires_on_the_series_that_it_is_for_and_on_no_others() {
    let said = promtool(&["test", "rules"], CASES);
    assert!(said.contains("SUCCESS"), "{said}");
    let cases = fs::read_to_string(workspace().join(CASES)).unwrap();
    let cases: Value = serde_saphyr::from_str(&cases).unwrap();
    let mut fires: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for case in cases["tests"].as_array().unwrap() {
        for expected in case["alert_rule_test"].as_array().unwrap() {
            let name = expected["alertname"].as_str().unwrap().to_owned();
            let alerts = expected["exp_alerts"].as_array();
            let some = alerts.is_some_and(|alerts| !alerts.is_empty());
            fires.entry(name).or_default()[usize::from(some)] += 1;
        }
    }
    let tried: BTreeSet<&String> = fires.keys().collect();
    let alerts = alerts();
    assert_eq!(tried, alerts.keys().collect());
    for (name, [not, does]) in &fires {
        assert!(
            *not > 0 && *does > 0,
            "{name}: {does} cases fire, {not} do not"
        );
    }
}
