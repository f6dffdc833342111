//! What every test here relies on: containers end as they are told, and reach each other by name.

use carillon_tests::lab::is;
use serde_json::{Value, json};

use crate::lab::{object, pod, shared};

#[test]
fn pods_reach_each_other_by_name_from_every_node() {
    let lab = shared();
    let bench = lab.bench("network");
    let web = pod("while :; do echo hello | nc -l -p 8080; done");
    let service = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]});
    bench.apply(&object(&bench, ("v1", "Pod"), "web", &web));
    bench.apply(&object(&bench, ("v1", "Service"), "web", &service));
    let ready = |name: &str| {
        let pod: Value = lab.get(&["pod", name, "-n", bench.name]);
        is(&pod, "Ready").then_some(())
    };
    lab.until("the web is ready", || ready("web"));
    let script = "for try in 1 2 3 4 5 6 7 8 9 10; do said=$(nc -w 2 web 80 </dev/null) && break; sleep 1; done
        echo \"$said\" | tee /dev/termination-log; exit 3";
    for node in &bench.nodes {
        let name = format!("client-on-{node}");
        let mut spec = pod(script);
        spec["nodeName"] = json!(node);
        bench.apply(&object(&bench, ("v1", "Pod"), &name, &spec));
        let ended = lab.until("it has ended", || {
            let pod = lab.get(&["pod", &name, "-n", bench.name]);
            (pod["status"]["phase"] == "Failed").then_some(pod)
        });
        let container = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(container["exitCode"], 3, "{ended}");
        assert_eq!(container["message"], "hello\n", "{ended}");
        assert_eq!(bench.kubectl(&["logs", &name]).trim(), "hello");
    }
    // Nothing that nobody controls is left, at which a drain would stop.
    bench.kubectl(&["delete", "pods", "--all", "--wait=false"]);
}
