//! The chart, whose pods run.

use std::collections::BTreeSet;

use carillon_testbed::carillon::{NAMESPACE, RELEASE};
use serde_json::{Value, json};

use crate::lab::{alone, carillon, shared};

#[test]
fn helm_waits_for_two_replicas_and_its_test_passes() {
    let lab = shared();
    let deployment = lab.get(&["deployment", RELEASE, "-n", NAMESPACE]);
    assert_eq!(deployment["status"]["readyReplicas"], 2);
    // Rendered and accepted; the network of these nodes does not enforce it.
    let policy = lab.get(&["networkpolicy", RELEASE, "-n", NAMESPACE]);
    let (policy, selector) = (&policy["spec"], &deployment["spec"]["selector"]);
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["podSelector"], *selector);
    let metrics = json!([{"ports": [{"port": "http", "protocol": "TCP"}]}]);
    assert_eq!(
        policy["ingress"], metrics,
        "from anywhere, and nothing else"
    );
    let egress = policy["egress"].as_array().unwrap();
    let ports: Vec<&Value> = egress.iter().map(|rule| &rule["ports"]).collect();
    let dns = json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]);
    assert_eq!((ports.len(), ports[1]), (2, &dns));
    let servers = ports[0].as_array().unwrap();
    assert!(
        servers.iter().all(|port| port["protocol"] == "TCP"),
        "{servers:?}"
    );
    assert!(
        servers.iter().any(|port| port["port"] == 6443),
        "{servers:?}"
    );
    let tested = lab.helm(&["test", RELEASE]);
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{said}");
    assert!(said.contains("Succeeded"), "{said}");
    let nodes: BTreeSet<String> = lab
        .operators()
        .iter()
        .map(|pod| pod["spec"]["nodeName"].to_string())
        .collect();
    assert_eq!(nodes.len(), 2, "each on a node of its own");
    for pod in lab.operators() {
        let container = &pod["status"]["containerStatuses"][0];
        assert_eq!(container["restartCount"], 0, "{container}");
        let name = pod["metadata"]["name"].as_str().unwrap();
        let page = format!("--raw=/api/v1/namespaces/{NAMESPACE}/pods/{name}:8080/proxy/metrics");
        let page = lab.kubectl(&["get", &page]);
        let memory = page
            .lines()
            .find(|line| line.starts_with("process_resident_memory_bytes"));
        let ready = carillon_tests::lab::condition_of(&pod, "Ready").unwrap();
        println!(
            "{name}: started {}, ready {}, {}",
            container["state"]["running"]["startedAt"],
            ready["lastTransitionTime"],
            memory.unwrap_or("no memory")
        );
    }
}

#[test]
fn the_readme_example_is_complete_on_each_node() {
    let lab = shared();
    let bench = lab.bench("hello");
    let file = carillon_testbed::carillon::workspace().join("examples/broadcastjob-minimal.yaml");
    bench.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    let job = bench.wait("hello", "Complete");
    assert_eq!(job["status"]["succeeded"], 3);
    let logs = bench.kubectl(&["logs", "-l", "carillon.dev/broadcastjob-name=hello"]);
    assert_eq!(logs.lines().count(), 3, "{logs}");
    // Through the pod of the operator, whose debug pages are on its loopback.
    let decided = carillon(&bench, &["decisions", "hello"]);
    assert!(decided.contains("create pod ×3: "), "{decided}");
}

#[test]
fn one_replica_may_be_evicted_at_a_time_and_the_other_goes_on() {
    let lab = alone();
    lab.wait_operators();
    let budget = lab.get(&["poddisruptionbudget", RELEASE, "-n", NAMESPACE]);
    assert_eq!(budget["status"]["disruptionsAllowed"], 1, "{budget}");
    let pods = lab.operators();
    let names: Vec<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    lab.evict(names[0]).unwrap();
    let refused = lab.evict(names[1]).unwrap_err().to_string();
    assert!(refused.contains("disruption budget"), "{refused}");
    let bench = lab.bench("evicted");
    bench.apply(&crate::lab::broadcast(
        &bench,
        "meanwhile",
        "echo ran >>/ledger/meanwhile",
        &json!({}),
    ));
    bench.wait("meanwhile", "Complete");
    for lines in lab.ledgers("meanwhile") {
        assert_eq!(lines, ["ran"]);
    }
    lab.wait_operators();
}

/// What `kubectl auth can-i --list` says of the account, and what the chart's list grants.
#[test]
fn the_account_may_do_what_the_list_of_permissions_says() {
    let lab = shared();
    let account = format!("--as=system:serviceaccount:{NAMESPACE}:{RELEASE}");
    let listed = lab.kubectl(&[
        "auth",
        "can-i",
        "--list",
        &account,
        "-n",
        NAMESPACE,
        "--no-headers",
    ]);
    let mut found: BTreeSet<(String, String)> = BTreeSet::new();
    for line in listed.lines() {
        // RESOURCES, NON-RESOURCE URLS, RESOURCE NAMES, VERBS
        let Some((resource, rest)) = line.split_once(' ').filter(|(name, _)| !name.is_empty())
        else {
            continue;
        };
        let verbs = rest.rsplit_once('[').map_or("", |(_, verbs)| verbs);
        let verbs = verbs.trim_end().trim_end_matches(']').split(' ');
        found.extend(verbs.map(|verb| (resource.to_owned(), verb.to_owned())));
    }
    let mut expected: BTreeSet<(String, String)> = BTreeSet::new();
    let everywhere = lab.get(&["clusterrole", RELEASE]);
    let leases = lab.get(&["roles", "-n", NAMESPACE]);
    let lease = &leases["items"][0];
    let rules = [&everywhere, lease].map(|role| role["rules"].as_array().unwrap());
    for rule in rules.into_iter().flatten() {
        let words = |field: &str| -> Vec<String> {
            let words = rule[field].as_array().into_iter().flatten();
            words
                .filter_map(|word| Some(word.as_str()?.to_owned()))
                .collect()
        };
        for group in words("apiGroups") {
            for resource in words("resources") {
                let name = match group.as_str() {
                    "" => resource.clone(),
                    group => match resource.split_once('/') {
                        Some((main, sub)) => format!("{main}.{group}/{sub}"),
                        None => format!("{resource}.{group}"),
                    },
                };
                expected.extend(words("verbs").into_iter().map(|verb| (name.clone(), verb)));
            }
        }
    }
    let of_all = [
        "selfsubjectreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
    ];
    found.retain(|(resource, _)| !of_all.iter().any(|all| resource.starts_with(all)));
    assert_eq!(found, expected, "{listed}");
}
