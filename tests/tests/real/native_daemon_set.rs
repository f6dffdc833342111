//! DaemonSets of apps/v1, served by us in place of kube-controller-manager: upstream's own kubectl works on them.

use std::time::Duration;

use carillon_testbed::{Cluster, Config, Operator, Options, wait};
use carillon_tests::lab::LIMIT;
use serde_json::{Value, json};

const EVERY: Duration = Duration::from_millis(200);

fn daemon_set(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": image, "args": ["a<b>&c"]}]},
            },
        },
    })
}

fn images(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let path = "-o=jsonpath={.items[*].spec.containers[0].image}";
    let images = cluster.kubectl_ok(["get", "pods", path])?;
    let mut images: Vec<String> = images.split_whitespace().map(str::to_owned).collect();
    images.sort();
    Ok(images)
}

#[test]
fn rollout_status_history_undo_and_restart_of_kubectl_work_without_any_crd_of_ours() {
    let mut config = Config::new("native-daemon-set").with_nodes(3);
    config.controller_manager_args = vec!["--controllers=*,-daemonset-controller".to_owned()];
    let cluster = Cluster::start(config).expect("a cluster");
    let options = Options::new("operator")
        .arg("--controllers=job")
        .arg("--serve-native=daemonsets");
    let operator = Operator::start(&cluster, &options).expect("an operator that is ready");
    let kubectl = |args: &[&str]| cluster.kubectl_ok(args).expect("kubectl");
    let apply = |image: &str| {
        let set = daemon_set(image).to_string();
        cluster
            .kubectl_stdin(["apply", "-f", "-"], &set)
            .expect("apply");
        kubectl(&[
            "annotate",
            "ds",
            "agent",
            "--overwrite",
            &format!("kubernetes.io/change-cause={image}"),
        ]);
    };
    let status = || kubectl(&["rollout", "status", "ds/agent", "--timeout=60s"]);
    let runs = |image: &str| {
        let all = || Ok((images(&cluster)? == vec![image.to_owned(); 3]).then_some(()));
        let log = || operator.process.log_tail(20);
        wait::until(&format!("all pods run {image}"), LIMIT, EVERY, all, log).expect("pods");
    };
    apply("busybox:1.36");
    assert!(status().contains("successfully rolled out"));
    runs("busybox:1.36");
    apply("busybox:1.37");
    assert!(status().contains("successfully rolled out"));
    runs("busybox:1.37");
    let history = kubectl(&["rollout", "history", "ds/agent"]);
    let causes: Vec<&str> = history
        .lines()
        .filter(|line| line.contains("busybox"))
        .collect();
    assert_eq!(causes.len(), 2, "{history}");
    kubectl(&["rollout", "undo", "ds/agent"]);
    assert!(status().contains("successfully rolled out"));
    runs("busybox:1.36");
    let revisions = || -> Vec<Value> {
        let list = kubectl(&["get", "controllerrevisions", "-o", "json"]);
        let list: Value = serde_json::from_str(&list).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    };
    let mut numbers: Vec<_> = revisions()
        .iter()
        .filter_map(|one| one["revision"].as_i64())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "the first revision is the newest again");
    kubectl(&["rollout", "restart", "ds/agent"]);
    assert!(status().contains("successfully rolled out"));
    assert_eq!(revisions().len(), 3);
    let set: Value =
        serde_json::from_str(&kubectl(&["get", "ds", "agent", "-o", "json"])).expect("JSON");
    let generation = &set["metadata"]["annotations"]["deprecated.daemonset.template.generation"];
    let pods: Value = serde_json::from_str(&kubectl(&["get", "pods", "-o", "json"])).expect("JSON");
    for pod in pods["items"].as_array().expect("pods") {
        assert_eq!(
            &pod["metadata"]["labels"]["pod-template-generation"],
            generation
        );
    }
    assert!(
        set["status"]["conditions"].is_null(),
        "what apps/v1 does not have is not written"
    );
}

#[test]
fn kube_controller_manager_and_we_take_each_others_revisions_and_pods_for_our_own() {
    let cluster = Cluster::start(Config::new("daemon-handover").with_nodes(2)).expect("a cluster");
    let kubectl = |args: &[&str]| cluster.kubectl_ok(args).expect("kubectl");
    let set = daemon_set("busybox:1.36").to_string();
    cluster
        .kubectl_stdin(["apply", "-f", "-"], &set)
        .expect("apply");
    kubectl(&["rollout", "status", "ds/agent", "--timeout=60s"]);
    let names = |kind: &str| kubectl(&["get", kind, "-o", "name"]);
    let (pods, revisions) = (names("pods"), names("controllerrevisions"));
    // Beside kube-controller-manager, which has nothing left to do.
    let options = Options::new("operator")
        .arg("--controllers=job")
        .arg("--serve-native=daemonsets");
    let operator = Operator::start(&cluster, &options).expect("an operator that is ready");
    let synced = || {
        let syncs = operator.metric("carillon_daemonset_syncs_total{result=\"success\"}");
        Ok(syncs.is_ok_and(|syncs| syncs > 0.0).then_some(()))
    };
    let log = || operator.process.log_tail(20);
    wait::until("a sync", LIMIT, EVERY, synced, log).expect("a sync");
    assert_eq!(
        (names("pods"), names("controllerrevisions")),
        (pods, revisions)
    );
}
