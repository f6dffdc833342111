//! What Carillon would do otherwise than kube-controller-manager.

use carillon_testbed::Component;
use serde_json::json;

use super::ward::{Report, turn};

#[test]
fn a_shadow_of_what_kube_controller_manager_serves_differs_only_where_that_has_something_to_do() {
    let turn = turn();
    let bench = turn.bench("doctor-shadow");
    let template = json!({"metadata": {"labels": {"app": "agent"}},
                          "spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]}});
    bench.apply(&json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": bench.name},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }));
    bench.apply(&json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "report", "namespace": bench.name},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.37"}]}}}}},
    }));
    bench.kubectl(&["rollout", "status", "ds/agent"]);
    let shadow = || Report::of(&turn.ask(Some(bench.name), &["--shadow", "-o", "json"]));
    let report = shadow();
    report.is_ok("shadow");
    let found = &report.check("shadow")["found"];
    assert_eq!(found, "1 DaemonSet, 1 CronJob: 2 as now, 0 otherwise");

    let cluster = &turn.ward.cluster;
    cluster.kill(Component::ControllerManager).unwrap();
    let pods = turn.get(&["pods", "-l", "app=agent", "-n", bench.name]);
    let pod = &pods["items"][0];
    let (name, node) = (&pod["metadata"]["name"], &pod["spec"]["nodeName"]);
    bench.kubectl(&["delete", "pod", name.as_str().unwrap(), "--now"]);
    let report = shadow();
    let what = format!("Carillon would create a pod: on {}", node.as_str().unwrap());
    report.finds("shadow", "Warning", "DaemonSet doctor-shadow/agent", &what);
    cluster.restart(Component::ControllerManager).unwrap();
    bench.until("the pod is back", || {
        let set = turn.get(&["ds", "agent", "-n", bench.name]);
        (set["status"]["numberAvailable"] == 4).then_some(())
    });
    bench.until("nothing would be done", || {
        (shadow().check("shadow")["result"] == "Ok").then_some(())
    });
    bench.kubectl(&["delete", "ds,cj", "--all"]);
}
