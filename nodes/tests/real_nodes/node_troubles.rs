//! What happens to nodes, and what each kind makes of it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use carillon_tests::lab::{condition_of, is};
use serde_json::{Value, json};

use crate::lab::alone;
use crate::work::Work;

#[test]
fn a_kubelet_that_is_silent_for_two_minutes_loses_nothing_and_nothing_runs_twice() {
    let lab = alone();
    let work = Work::start(&lab, "silent", 25, &json!({"nodeLostTimeoutSeconds": 20}));
    let silent_since = Instant::now();
    lab.nodes().all()[1].stop_kubelet().unwrap();
    let fix = lab.until("the pod of the silent node is lost", || {
        let fix = work.bench.get("fix");
        (fix["status"]["lost"] == 1).then_some(fix)
    });
    assert_eq!(fix["status"]["active"], 1, "the others have ended: {fix}");
    let reason = &condition_of(&fix, "Reconciling").unwrap()["reason"];
    assert_eq!(reason, "WaitingForLostNodes");
    // Containers go on without a kubelet.
    lab.until("its container has ended", || {
        (work.runs("fix")[1] == (1, 1)).then_some(())
    });
    sleep(Duration::from_mins(2).saturating_sub(silent_since.elapsed()));
    assert!(!is(&work.bench.get("fix"), "Complete"), "nobody knows yet");
    assert_eq!(work.runs("fix"), [(1, 1); 3], "and nothing is begun again");
    lab.nodes().all()[1].start_kubelet().unwrap();
    work.wait();
    work.assert_once();
    lab.wait_nodes();
}

#[test]
fn a_container_runtime_that_is_restarted_disturbs_nothing() {
    let lab = alone();
    let work = Work::start(&lab, "runtime", 20, &json!({}));
    for node in lab.nodes().all() {
        node.restart_containerd().unwrap();
    }
    work.wait();
    work.assert_once();
    lab.wait_nodes();
}

/// A node that goes down takes its containers with it. The kubelet says so afterwards with the exit code 255.
#[test]
fn a_node_that_reboots_fails_the_attempt_and_a_rule_has_it_tried_again() {
    let lab = alone();
    let ignore = json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [255]}});
    let more = json!({"podFailurePolicy": {"rules": [ignore]}});
    let work = Work::start(&lab, "reboot", 15, &more);
    work.broadcast("plain", 15, &json!({"failurePolicy": {"type": "Continue"}}));
    lab.until("all of it has begun", || {
        (work.runs("plain") == [(1, 0); 3]).then_some(())
    });
    let boot = |lab: &crate::lab::Lab| {
        lab.get(&["node", "node-1"])["status"]["nodeInfo"]["bootID"].clone()
    };
    let before = boot(&lab);
    lab.nodes().all()[1].reboot().unwrap();
    work.wait();
    assert_ne!(boot(&lab), before);
    assert_eq!(work.runs("fix"), [(1, 1), (2, 1), (1, 1)]);
    let attempts = work.bench.attempts("fix", "node-1");
    let told: Vec<(&str, &str)> = attempts
        .iter()
        .map(|(_, state, reason)| (&**state, &**reason))
        .collect();
    assert_eq!(
        told,
        [
            ("Disrupted", "IgnoredByPodFailurePolicy"),
            ("Succeeded", "")
        ]
    );

    // Without a rule it has failed: it may have been the pod itself that had the node reboot.
    work.bench.wait("plain", "Complete");
    assert_eq!(work.runs("plain"), [(1, 1), (1, 0), (1, 1)]);
    let results = work.bench.results("plain");
    let failed: Vec<&Value> = results
        .iter()
        .filter(|result| result["state"] == "Failed")
        .collect();
    assert_eq!(failed.len(), 1, "{results:?}");
    assert_eq!(
        (&failed[0]["nodeName"], &failed[0]["exitCode"]),
        (&json!("node-1"), &json!(255)),
        "{failed:?}"
    );

    // The same pod of the DaemonSet, whose container was started again.
    let agents = work.runs("agent");
    assert_eq!(agents[1].0, 2, "{agents:?}");
    lab.wait_nodes();
    lab.wait_operators();
}

#[test]
fn a_node_that_is_drained_is_tried_again_when_it_is_back_or_not_at_all_if_that_was_asked() {
    let lab = alone();
    let work = Work::start(&lab, "drain", 20, &json!({}));
    let at_most_once =
        json!({"executionPolicy": "AtMostOnce", "failurePolicy": {"type": "Continue"}});
    work.broadcast("once", 20, &at_most_once);
    lab.until("it has begun", || {
        (work.runs("once") == [(1, 0); 3]).then_some(())
    });
    let node = "node-2";
    let drained = [
        "drain",
        node,
        "--ignore-daemonsets",
        // Nobody else runs now, but what others have left may be there.
        "--force",
        "--pod-selector=app!=agent,app.kubernetes.io/name!=carillon",
        "--timeout=2m",
    ];
    lab.kubectl(&drained);
    let fix = lab.until("only the drained node is left", || {
        let fix = work.bench.get("fix");
        let reason = condition_of(&fix, "Reconciling").map(|found| found["reason"].clone());
        (reason == Some(json!("WaitingForInterruptedNodes"))).then_some(fix)
    });
    assert_eq!(fix["status"]["succeeded"], 2, "{fix}");
    // Without a wait for the node: the Job has its pod elsewhere.
    lab.until("sum is Complete", || {
        is(&lab.get(&["job", "sum", "-n", "drain"]), "Complete").then_some(())
    });
    lab.kubectl(&["uncordon", node]);
    work.wait();
    assert_eq!(work.runs("fix"), [(1, 1), (1, 1), (2, 1)]);
    let of = |job: &str| -> Vec<(String, String)> {
        let attempts = work.bench.attempts(job, node);
        attempts
            .into_iter()
            .map(|(_, state, reason)| (state, reason))
            .collect()
    };
    let told = |words: &[(&str, &str)]| -> Vec<(String, String)> {
        words
            .iter()
            .map(|(state, reason)| ((*state).to_owned(), (*reason).to_owned()))
            .collect()
    };
    assert_eq!(
        of("fix"),
        told(&[("Disrupted", "PodDisrupted"), ("Succeeded", "")])
    );
    work.bench.wait("once", "Complete");
    assert_eq!(of("once"), told(&[("Disrupted", "PodDisrupted")]));
    assert_eq!(work.runs("once"), [(1, 1), (1, 1), (1, 0)]);
    assert_eq!(work.runs("agent"), [(1, 0); 3], "nobody asked for that");
}

#[test]
fn a_node_that_is_cordoned_ends_what_it_has_begun_and_gets_no_new_job() {
    let lab = alone();
    let work = Work::start(&lab, "cordon", 15, &json!({}));
    lab.kubectl(&["cordon", "node-1"]);
    work.broadcast("later", 0, &json!({}));
    let later = work.bench.wait("later", "Complete");
    assert_eq!(work.runs("later"), [(1, 1), (0, 0), (1, 1)]);
    let refused = &later["status"]["refused"];
    assert_eq!(refused[0]["reason"], "NodeUnschedulable", "{refused}");
    work.wait();
    work.assert_once();
    lab.kubectl(&["uncordon", "node-1"]);
}

/// As when a node is short of disk or memory: Kubernetes evicts what does not tolerate the taint.
#[test]
fn a_node_whose_taint_evicts_its_pods_is_tried_again_when_the_taint_is_gone() {
    let lab = alone();
    let work = Work::start(&lab, "taint", 20, &json!({}));
    lab.kubectl(&[
        "taint",
        "node",
        "node-1",
        "example.com/pressure=disk:NoExecute",
    ]);
    let fix = lab.until("only the tainted node is left", || {
        let fix = work.bench.get("fix");
        let reason = condition_of(&fix, "Reconciling").map(|found| found["reason"].clone());
        (reason == Some(json!("WaitingForInterruptedNodes"))).then_some(fix)
    });
    assert_eq!(fix["status"]["succeeded"], 2, "{fix}");
    lab.until("the DaemonSet has taken its pod off the node", || {
        (work.pods("agent").len() == 2).then_some(())
    });
    lab.kubectl(&["taint", "node", "node-1", "example.com/pressure-"]);
    work.wait();
    assert_eq!(work.runs("fix"), [(1, 1), (2, 1), (1, 1)]);
    let attempts = work.bench.attempts("fix", "node-1");
    let states: Vec<&str> = attempts.iter().map(|(_, state, _)| &**state).collect();
    assert_eq!(states, ["Disrupted", "Succeeded"], "{attempts:?}");
    assert_eq!(work.runs("agent"), [(1, 0), (2, 0), (1, 0)]);
    lab.wait_operators();
}

#[test]
fn a_node_that_is_cut_off_goes_on_and_is_believed_when_it_is_back() {
    let lab = alone();
    let work = Work::start(&lab, "cut", 20, &json!({"nodeLostTimeoutSeconds": 20}));
    lab.nodes().all()[0].cut_off().unwrap();
    lab.until("its pod is lost", || {
        (work.bench.get("fix")["status"]["lost"] == 1).then_some(())
    });
    // What it does now nobody hears.
    sleep(Duration::from_secs(1));
    assert_eq!(
        work.bench.attempts("fix", "node-0").len(),
        1,
        "it may still run"
    );
    lab.nodes().all()[0].reconnect().unwrap();
    work.wait();
    work.assert_once();
    lab.wait_nodes();
    lab.wait_operators();
}
