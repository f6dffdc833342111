//! `decisions`: what the operator says that it decided.

use carillon_tests::lab::Bench;
use serde_json::{Value, json};

use super::cron_jobs::cron;
use super::desk::{carillon, command, desk, finish};

#[test]
fn the_operator_is_asked_what_it_decided_about_an_object_of_each_kind() {
    let bench = desk().bench("cli-decisions");
    bench.apply(&bench.job("fix", &json!({}), &json!({})));
    bench.wait("fix", "Complete");
    bench.apply(&cron(&bench, "report", &json!({}), &json!({})));
    bench.kubectl(&[
        "wait",
        "ccj/report",
        "--for=jsonpath={.status.conditions}",
        "--timeout=60s",
    ]);
    let address = format!("--debug-address=127.0.0.1:{}", desk().operator.debug_port);
    let table = carillon(&bench, &["decisions", "fix", &address]).ended_with(0);
    assert!(table.stdout.starts_with("AGE "), "{table:?}");
    assert!(table.stdout.contains("create pod ×6: "), "{table:?}");
    let told = carillon(&bench, &["decisions", "cbj/fix", &address, "-o", "json"]).json();
    assert_eq!(
        (&told["kind"], &told["name"]),
        (&json!("BroadcastJob"), &json!("fix"))
    );
    let decisions = told["decisions"].as_array().unwrap();
    assert_eq!(told["silent"], json!([]));
    let times: Vec<&str> = decisions
        .iter()
        .filter_map(|one| one["time"].as_str())
        .collect();
    assert!(
        times.len() > 1 && times.is_sorted_by(|a, b| a >= b),
        "{times:?}"
    );
    let bad = decisions.iter().filter(|one| one["bad"] == true).count();
    assert_eq!(bad, 0, "{told}");
    let cron = carillon(&bench, &["decisions", "ccj/report", &address, "-o", "json"]).json();
    assert!(!cron["decisions"].as_array().unwrap().is_empty(), "{cron}");
    // Nobody has decided about it.
    bench.kubectl(&["create", "job", "other", "--image=none"]);
    let none = carillon(&bench, &["decisions", "job/other", &address]).ended_with(0);
    assert!(
        none.stdout.is_empty()
            && none
                .stderr
                .contains("No decision about it is remembered by 127.0.0.1:"),
        "{none:?}"
    );
}

#[test]
fn who_cannot_ask_the_operator_is_told_why() {
    let bench = desk().bench("cli-undecided");
    bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
    let says = |args: &[&str], words: &str| {
        let args = [&["decisions", "fix"], args].concat();
        let answer = carillon(&bench, &args).ended_with(1);
        assert!(answer.stderr.contains(words), "{words}: {answer:?}");
    };
    says(
        &[],
        "it has no annotation carillon.dev/lease. Name its namespace with --operator-namespace",
    );
    says(
        &["--operator-namespace=x"],
        "namespace x has no running pod of an operator with debug pages",
    );
    says(
        &["--debug-address=127.0.0.1:1"],
        "--debug-address 127.0.0.1:1: Connection refused",
    );
    let metrics = format!("--debug-address=127.0.0.1:{}", desk().operator.http_port);
    says(
        &[&metrics],
        "it answers 404 Not Found: is that the debug port of an operator?",
    );
    // A pod that looks like an operator's, on a node that nobody can reach.
    bench.apply(&pod(
        &bench,
        "one",
        &json!(["--debug-address=127.0.0.1:9081"]),
    ));
    bench.apply(&pod(&bench, "off", &json!(["--debug-address="])));
    let running = "--for=jsonpath={.status.phase}=Running";
    bench.kubectl(&["wait", "pod/one", "pod/off", running, "--timeout=60s"]);
    let namespace = format!("--operator-namespace={}", bench.name);
    says(&[&namespace], "pod cli-undecided/one: ");
}

#[test]
fn each_right_that_is_missing_to_ask_the_operator_is_named() {
    let bench = desk().bench("cli-unasked");
    bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
    bench.apply(&pod(&bench, "one", &json!([])));
    let running = "--for=jsonpath={.status.phase}=Running";
    bench.kubectl(&["wait", "pod/one", running, "--timeout=60s"]);
    let kubeconfig = crate::dashboard::serve::viewer(&bench);
    let namespace = format!("--operator-namespace={}", bench.name);
    let says = |args: &[&str], words: &str| {
        let mut asked = command(bench.cluster, bench.name);
        asked.env("KUBECONFIG", &kubeconfig);
        asked.args(["decisions", "cbj/fix"]).args(args);
        let answer = finish(asked, "").ended_with(1);
        assert!(answer.stderr.contains(words), "{words}: {answer:?}");
    };
    says(
        &[],
        "you may not get the CRD broadcastjobs.carillon.dev, which says where the operator is",
    );
    says(
        &[&namespace],
        "you may not list pods in namespace cli-unasked",
    );
    let may = |role: &str, verb: &str, resource: &str| {
        let (verb, resource) = (format!("--verb={verb}"), format!("--resource={resource}"));
        bench.kubectl(&["create", "role", role, &verb, &resource]);
        let account = format!("--serviceaccount={}:viewer", bench.name);
        let role = format!("--role={role}");
        bench.kubectl(&[
            "create",
            "rolebinding",
            role.trim_start_matches("--role="),
            &role,
            &account,
        ]);
    };
    may("lists", "list", "pods");
    let rights = "needs the verbs get and create of pods/portforward: ";
    says(&[&namespace], rights);
    may("creates", "create", "pods/portforward");
    says(&[&namespace], rights);
    may("gets", "get", "pods/portforward");
    // Nobody can reach the node: what comes now is no more about rights.
    let mut asked = command(bench.cluster, bench.name);
    asked.env("KUBECONFIG", &kubeconfig);
    asked.args(["decisions", "cbj/fix", &namespace]);
    let answer = finish(asked, "").ended_with(1);
    let said = &answer.stderr;
    assert!(
        said.contains("pod cli-unasked/one: ") && !said.contains("may not"),
        "{said}"
    );
}

fn pod(bench: &Bench<'_>, name: &str, args: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": bench.name,
            "labels": {"app.kubernetes.io/component": "operator"},
        },
        "spec": {"nodeName": "node-0001", "containers": [{"name": "carillon", "image": "none", "args": args}]},
    })
}
