//! A real Prometheus on the operator's `/metrics`: queries, alert expressions, and the page that
//! describes the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};
use carillon_testbed::carillon::{apply_crds, workspace};
use carillon_testbed::{Cluster, Config, Fate, Operator, Options, Prometheus, fate, wait};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
const EVERY: Duration = Duration::from_millis(200);

/// Two replicas at work, one operator without election, and Prometheus, which scrapes the former
/// two since before they had anything to do.
struct Scene {
    leader: Operator,
    standby: Operator,
    alone: Operator,
    /// What the standby said of leadership as soon as it answered.
    standby_at_first: f64,
    prometheus: Prometheus,
    /// Last: the operators end before it.
    _cluster: Cluster,
}

fn scene() -> &'static Scene {
    static SCENE: OnceLock<Option<Scene>> = OnceLock::new();
    let scene = SCENE.get_or_init(|| {
        let scene = set();
        scene.inspect_err(|error| eprintln!("{error:#}")).ok()
    });
    scene
        .as_ref()
        .expect("another of these tests says what went wrong")
}

fn set() -> Result<Scene> {
    let mut config = Config::new("prometheus").with_nodes(4);
    config.audit = carillon_testbed::Audit::Off;
    let cluster = Cluster::start(config)?;
    apply_crds(&cluster)?;
    cluster.kubectl_ok(["create", "namespace", "empty"])?;
    let leader = Operator::start(&cluster, &Options::new("leader"))?;
    leads(&leader)?;
    let standby = Operator::start(&cluster, &Options::new("standby"))?;
    let standby_at_first = standby.metric(LEADS)?;
    let options = Options::new("alone").arg("--leader-elect=false");
    let alone = Operator::start(&cluster, &options.arg("--namespaces=empty"))?;

    let targets = [&leader, &standby].map(|o| format!("\"127.0.0.1:{}\"", o.http_port));
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
         scrape_configs:\n\
         - job_name: carillon\n  \
           static_configs:\n  \
           - targets: [{}]\n    \
             labels: {{namespace: carillon-system}}\n",
        targets.join(", ")
    );
    let prometheus = Prometheus::start(&config, &[&alerts_text()])?;
    prometheus.query_until_some("count(carillon_build_info) == 2", LIMIT)?;

    work(&cluster)?;
    prometheus.query_until_some(EXTERNAL, LIMIT)?;
    Ok(Scene {
        leader,
        standby,
        alone,
        standby_at_first,
        prometheus,
        _cluster: cluster,
    })
}

const EXTERNAL: &str =
    r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/other"} == 1"#;
const LEADS: &str = r#"leader_election_master_status{name="carillon"}"#;

fn leads(operator: &Operator) -> Result<()> {
    let probe = || Ok((operator.metric(LEADS)? > 0.0).then_some(()));
    wait::until("the first operator leads", LIMIT, EVERY, probe, String::new)
}

/// A job that ends with a failed node, one that goes on, with a node left out of it, a DaemonSet that would make pods
/// without end, and one whose pods never start.
fn work(cluster: &Cluster) -> Result<()> {
    let job = |name: &str, fate: &Fate| {
        json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "kind": "BroadcastJob",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "failurePolicy": {"type": "Continue"},
                "template": {
                    "metadata": {"annotations": fate.annotations()},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "work", "image": "busybox"}],
                    },
                },
            },
        })
    };
    cluster.kubectl_ok(["cordon", "node-0003"])?;
    let fates = fate::table([("node-0001", Fate::exits(1, "disk full"))]);
    let fates = Fate::default().with("fates", fates);
    // Served by nobody here.
    let others = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "of-others", "namespace": "default"},
        "spec": {"managedBy": "example.com/other", "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "work", "image": "busybox"}],
        }}},
    });
    let daemon_set = |name: &str, fate: &Fate| {
        json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}, "annotations": fate.annotations()},
                    "spec": {"containers": [{"name": "work", "image": "busybox"}]},
                },
            },
        })
    };
    let mut stalls = daemon_set("stalls", &Fate::default());
    stalls["spec"]["selector"]["matchExpressions"] =
        json!([{"key": "controller-revision-hash", "operator": "DoesNotExist"}]);
    let lacks = daemon_set("lacks", &Fate::never_starts("ImagePullBackOff"));
    for object in [
        others,
        job("ends", &fates),
        job("hangs", &Fate::hangs()),
        stalls,
        lacks,
    ] {
        cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())?;
    }
    for (name, path, value) in [
        ("ends", "{.status.phase}", "completed"),
        ("hangs", "{.status.active}", "3"),
    ] {
        let args = [
            "wait",
            &format!("--for=jsonpath={path}={value}"),
            "--timeout=60s",
            &format!("broadcastjob/{name}"),
        ];
        cluster.kubectl_ok(args)?;
    }
    let of = "daemonsets.carillon.dev/lacks";
    let lacks = "--for=condition=Available=false";
    cluster.kubectl_ok(["wait", lacks, "--timeout=60s", of])?;
    make_older(cluster, of, "Available")
}

/// A condition says that it has been as it is for an hour. The operator keeps the time of what has not changed.
fn make_older(cluster: &Cluster, of: &str, type_: &str) -> Result<()> {
    let object: Value = serde_json::from_str(&cluster.kubectl_ok(["get", of, "-o", "json"])?)?;
    let conditions = object["status"]["conditions"].as_array();
    let at = conditions.and_then(|all| all.iter().position(|one| one["type"] == type_));
    let at = at.with_context(|| format!("{of} has no condition {type_}"))?;
    let place = format!("/status/conditions/{at}");
    let hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    let hour_ago = hour_ago.round(jiff::Unit::Second)?.to_string();
    // The operator may write conditions meanwhile.
    let patch = json!([
        {"op": "test", "path": format!("{place}/type"), "value": type_},
        {"op": "replace", "path": format!("{place}/lastTransitionTime"), "value": hour_ago},
    ]);
    let patch = patch.to_string();
    cluster.kubectl_ok([
        "patch",
        of,
        "--subresource=status",
        "--type=json",
        "-p",
        &patch,
    ])?;
    Ok(())
}

fn alerts_text() -> String {
    fs::read_to_string(workspace().join("charts/carillon/files/alerts.yaml")).unwrap()
}

/// The alerts: name and rule.
fn alerts() -> BTreeMap<String, Value> {
    let file: Value = serde_saphyr::from_str(&alerts_text()).unwrap();
    let groups = file["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules
        .map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule.clone()))
        .collect()
}

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

/// Removes every `{…}`, `[…]` and string of a PromQL expression.
fn without_selectors(expression: &str) -> String {
    let mut depth = 0;
    let mut quoted = false;
    let mut left = String::new();
    for c in expression.chars() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if depth == 0 => left.push(c),
            _ => {}
        }
    }
    left
}

/// The metrics that a PromQL expression names.
fn metrics_of(expression: &str) -> BTreeSet<String> {
    let text = without_selectors(expression);
    let mut metrics = BTreeSet::new();
    let mut rest = text.as_str();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let from = &rest[start..];
        let name = &from[..from.find(|c| !word(c)).unwrap_or(from.len())];
        rest = &from[name.len()..];
        if [
            "by",
            "on",
            "without",
            "ignoring",
            "group_left",
            "group_right",
        ]
        .contains(&name)
        {
            // Labels follow.
            rest = rest.split_once(')').map_or("", |(_, after)| after);
        } else if !["and", "or", "unless", "bool", "offset"].contains(&name)
            && !rest.trim_start().starts_with('(')
        {
            // A name that is followed by a parenthesis is a function or an aggregation, unless a
            // grouping stands between: `sum by (le) (…)`.
            let grouping = ["by", "without"]
                .iter()
                .any(|g| rest.trim_start().starts_with(g));
            if !grouping {
                metrics.insert(name.to_owned());
            }
        }
    }
    metrics
}

#[test]
fn the_metrics_of_an_expression_are_found() {
    let expression = r#"histogram_quantile(0.99, sum by (le) (rate(a_bucket{x="b_c"}[5m])))
        unless on (job, instance) max without (d) (e:f == 1) or absent(g) and h"#;
    let expected = ["a_bucket", "e:f", "g", "h"].map(str::to_owned);
    assert_eq!(metrics_of(expression), expected.into());
}

/// The selectors of an expression that hold for certain: with `=` only.
fn plain_selectors(expression: &str) -> Vec<String> {
    let mut selectors = Vec::new();
    for (brace, _) in expression.match_indices('{') {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let start = expression[..brace].rfind(word).map_or(0, |at| at + 1);
        let end = expression[brace..]
            .find('}')
            .map_or(expression.len(), |at| brace + at + 1);
        let selector = &expression[start..end];
        if !selector.contains('~') && !selector.contains("!=") {
            selectors.push(selector.to_owned());
        }
    }
    selectors
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
    // node-0003 is cordoned, and the job that hangs has left it out.
    let reason = r#"carillon_broadcastjob_refused_nodes{reason="NodeUnschedulable"} == 1"#;
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
        } else {
            assert!(result.is_empty(), "{name} on a healthy cluster: {result:?}");
        }
    }
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
