//! The verbs about DaemonSets, of carillon.dev and of apps/v1: get, explain, rollout, plan.

use carillon_tests::lab::Bench;
use serde_json::{Value, json};

use super::desk::{Answer, ask, carillon, desk};

/// A DaemonSet for all nodes of the cluster; `fates` (see the test bed) says what becomes of its pods.
pub(super) fn set(bench: &Bench<'_>, image: &str, fates: &Value, strategy: &Value) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": bench.name,
                     "annotations": {"kubernetes.io/change-cause": format!("image {image}")}},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": "agent"},
                             "annotations": {"testbed.carillon.dev/fates": fates.to_string()}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

fn plain(bench: &Bench<'_>, image: &str) -> Value {
    set(bench, image, &json!({}), &json!({}))
}

fn native(mut object: Value) -> Value {
    object["apiVersion"] = json!("apps/v1");
    object
}

fn get(bench: &Bench<'_>) -> Value {
    let text = bench.kubectl(&["get", "cds", "agent", "-o", "json"]);
    serde_json::from_str(&text).unwrap()
}

fn said(answer: &Answer) -> String {
    format!("{}{}", answer.stdout, answer.stderr)
}

#[track_caller]
fn complete(bench: &Bench<'_>, name: &str) -> String {
    let args = ["rollout", "status", name, "--timeout", "2m"];
    carillon(bench, &args).ended_with(0).stdout
}

/// An update whose first node never has an available pod.
fn held_up(bench: &Bench<'_>) -> Value {
    held_up_on(bench, &["node-0000".to_owned()])
}

/// An update that never has an available pod on these nodes.
fn held_up_on(bench: &Bench<'_>, nodes: &[String]) -> Value {
    let never = json!({"fate": "never-starts", "waiting-reason": "ImagePullBackOff"});
    let fates: Value = nodes
        .iter()
        .map(|node| (node.clone(), never.clone()))
        .collect();
    set(bench, "busybox:1.37", &fates, &json!({}))
}

#[test]
fn an_update_that_is_held_up_is_explained_and_undone() {
    let bench = desk().bench("cli-ds-undo");
    bench.apply(&plain(&bench, "busybox:1.36"));
    assert_eq!(
        complete(&bench, "agent"),
        "agent: 7/7 updated, 7 available, Complete\n"
    );
    bench.apply(&held_up(&bench));
    bench.until("the first node holds it up", || {
        let waiting = get(&bench)["status"]["waitingFor"].clone();
        let expected = json!([{"reason": "PodNotStarted", "count": 1, "sample": ["node-0000"]}]);
        (waiting == expected).then_some(())
    });
    let status = carillon(&bench, &["rollout", "status", "cds/agent", "--watch=false"]);
    let held = "agent: 1/7 updated, 6 available, Updating: 1 node PodNotStarted (node-0000)\n";
    assert_eq!(status.ended_with(2).stdout, held);

    let shown = carillon(&bench, &["get", "agent"]).ended_with(0).stdout;
    for part in [
        "agent   7         1/7       6           Updating: 1 node PodNotStarted (node-0000)",
        "1       waited for   PodNotStarted           node-0000",
        "1       refused      NodeTaintNotTolerated   node-0006",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    let listed = carillon(&bench, &["get", "-o", "json"]).json();
    assert_eq!(
        listed["items"][0]["waitingFor"][0]["sample"][0],
        "node-0000"
    );
    let groups = carillon(&bench, &["explain", "agent", "-o", "json"]).json();
    let groups = groups["groups"].as_array().unwrap().iter();
    let groups: Vec<String> = groups
        .map(|group| format!("{} {} {}", group["place"], group["reason"], group["count"]))
        .collect();
    assert_eq!(
        groups,
        [
            r#""Waiting" "PodNotStarted" 1"#,
            r#""InTurn" "" 6"#,
            r#""Refused" "NodeTaintNotTolerated" 1"#
        ]
    );
    let of_node = |node: &str| {
        let args = ["explain", "agent", "--node", node];
        carillon(&bench, &args).ended_with(0).stdout
    };
    assert!(of_node("node-0002").contains(
        "Next: its pod is replaced when its turn comes, after 1 other once node-0000 has an available pod"
    ));
    let tainted = of_node("node-0006");
    for part in [
        "taints         FAIL",
        "kubectl taint node node-0006",
        "It has no pod.",
    ] {
        assert!(tainted.contains(part), "{tainted}");
    }
    let waiting = of_node("node-0000");
    assert!(waiting.contains("2 (current)   NotReady"), "{waiting}");

    let history = carillon(&bench, &["rollout", "history", "agent", "-o", "json"]).json();
    let told = |n: usize| {
        let one = &history["items"][n];
        (
            one["revision"].as_i64(),
            one["pods"].as_i64(),
            one["changeCause"].as_str(),
        )
    };
    assert_eq!(told(0), (Some(1), Some(6), Some("image busybox:1.36")));
    assert_eq!(told(1), (Some(2), Some(1), Some("image busybox:1.37")));
    let template = carillon(&bench, &["rollout", "history", "agent", "--revision=1"]);
    let template = template.ended_with(0).stdout;
    let (old, new) = ("busybox:1.36", "busybox:1.37");
    assert!(
        template.contains(old) && !template.contains(new),
        "{template}"
    );

    let undo = |more: &[&str]| carillon(&bench, &[&["rollout", "undo", "agent"], more].concat());
    let rolled = "daemonset.carillon.dev/agent rolled back to revision 1";
    let change = r#"spec.template.spec.containers[0].image: "busybox:1.37" -> "busybox:1.36""#;
    let dry = undo(&["--dry-run"]).ended_with(0).stdout;
    assert!(
        dry.starts_with(&format!("{rolled} (dry run)\n")) && dry.contains(change),
        "{dry}"
    );
    let image = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(image(&get(&bench)), "busybox:1.37");
    let done = undo(&[]).ended_with(0).stdout;
    assert!(
        done.starts_with(&format!("{rolled}\n")) && done.contains(change),
        "{done}"
    );
    assert_eq!(image(&get(&bench)), "busybox:1.36");
    complete(&bench, "agent");
    let again = undo(&["--to-revision=3"]).ended_with(0).stdout;
    let skipped =
        "daemonset.carillon.dev/agent skipped: its template is that of revision 3 already\n";
    assert_eq!(again, skipped);
    let none = undo(&["--to-revision=9"]).ended_with(1).stderr;
    assert!(none.contains("has no revision 9: it has 2, 3"), "{none}");
}

#[test]
fn a_paused_update_needs_a_person_and_goes_on_when_it_is_resumed() {
    let bench = desk().bench("cli-ds-pause");
    bench.apply(&plain(&bench, "busybox:1.36"));
    complete(&bench, "agent");
    let rollout = |verb: &str, code| carillon(&bench, &["rollout", verb, "agent"]).ended_with(code);
    let name = "daemonset.carillon.dev/agent";
    let dry = carillon(&bench, &["rollout", "pause", "agent", "--dry-run"]).ended_with(0);
    assert_eq!(dry.stdout, format!("{name} paused (dry run)\n"));
    assert_eq!(rollout("pause", 0).stdout, format!("{name} paused\n"));
    assert_eq!(
        rollout("pause", 0).stdout,
        format!("{name} is paused already\n")
    );
    bench.kubectl(&[
        "patch", "cds", "agent", "--type=json", "-p",
        r#"[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "busybox:1.37"}]"#,
    ]);
    let paused = rollout("status", 4).stdout;
    assert_eq!(
        paused,
        "agent: 0/7 updated, 7 available, Paused: rollingUpdate.paused is true\n"
    );
    for verb in ["undo", "restart"] {
        let refused = rollout(verb, 1).stderr;
        assert!(
            refused.contains("kubectl carillon -n cli-ds-pause rollout resume cds/agent"),
            "{refused}"
        );
    }
    let explained = carillon(&bench, &["explain", "agent", "--node", "node-0001"]).ended_with(0);
    assert!(
        explained
            .stdout
            .contains("node-0001 in agent: InTurn (Paused)"),
        "{explained:?}"
    );
    assert_eq!(rollout("resume", 0).stdout, format!("{name} resumed\n"));
    assert_eq!(
        rollout("resume", 0).stdout,
        format!("{name} is not paused\n")
    );
    complete(&bench, "agent");
    let pods = || bench.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]);
    let before = pods();
    assert_eq!(rollout("restart", 0).stdout, format!("{name} restarted\n"));
    complete(&bench, "agent");
    let after = pods();
    assert!(
        !before.split(' ').any(|uid| after.contains(uid)),
        "{before} {after}"
    );
}

/// The patch of an undo tests the generation, so that an edit at the same moment is not lost: by the API server, for
/// both APIs.
#[test]
fn a_patch_that_tests_the_generation_is_refused_after_an_edit() {
    let bench = desk().bench("cli-ds-race");
    let slow = json!({"type": "OnDelete"});
    for (kind, object) in [
        (
            "daemonsets.carillon.dev",
            set(&bench, "busybox:1.37", &json!({}), &slow),
        ),
        (
            "daemonsets.apps",
            native(set(&bench, "busybox:1.37", &json!({}), &slow)),
        ),
    ] {
        bench.apply(&object);
        let patch = |generation: i64| {
            let patch = json!([
                {"op": "test", "path": "/metadata/generation", "value": generation},
                {"op": "replace", "path": "/spec/minReadySeconds", "value": generation},
            ]);
            let add = patch.to_string().replace("replace", "add");
            let args = [
                "-n",
                bench.name,
                "patch",
                kind,
                "agent",
                "--type=json",
                "-p",
                &add,
            ];
            bench.cluster.kubectl_ok(args)
        };
        assert!(patch(1).is_ok());
        let late = patch(1).unwrap_err().to_string();
        assert!(late.contains("generation"), "{late}");
    }
}

#[test]
fn native_ones_are_read_undone_and_restarted_and_have_no_pause() {
    let bench = desk().bench("cli-ds-native");
    bench.apply(&native(plain(&bench, "busybox:1.36")));
    assert_eq!(
        complete(&bench, "ds/agent"),
        "agent: 7/7 updated, 7 available, Complete\n"
    );
    // kube-controller-manager takes nodes in any order: whichever is first must hold it up.
    bench.apply(&native(held_up_on(&bench, &bench.nodes)));
    let held = bench.until("what holds it up is seen among its pods", || {
        let args = ["rollout", "status", "ds/agent", "--watch=false"];
        let answer = carillon(&bench, &args);
        answer
            .stdout
            .contains("1 node PodNotStarted (node-")
            .then_some(answer)
    });
    assert_eq!(held.code, 2, "{held:?}");
    let got = carillon(&bench, &["get", "ds/agent", "-o", "json"]).json();
    assert_eq!(
        (&got["apiVersion"], &got["standing"]),
        (&json!("apps/v1"), &json!("Updating"))
    );
    let listed = carillon(&bench, &["get", "ds", "-o", "name"])
        .ended_with(0)
        .stdout;
    assert_eq!(listed, "daemonset.apps/agent\n");
    // It is the only one of that name, so that the kind need not be said.
    let explained = carillon(&bench, &["explain", "agent"]).ended_with(0).stdout;
    for part in ["InTurn", "NodeTaintNotTolerated", "8       in all"] {
        assert!(explained.contains(part), "{explained}");
    }
    let undone = carillon(&bench, &["rollout", "undo", "agent"])
        .ended_with(0)
        .stdout;
    assert!(
        undone.starts_with("daemonset.apps/agent rolled back to revision 1\n"),
        "{undone}"
    );
    complete(&bench, "agent");
    let restarted = carillon(&bench, &["rollout", "restart", "agent"])
        .ended_with(0)
        .stdout;
    assert_eq!(restarted, "daemonset.apps/agent restarted\n");
    complete(&bench, "agent");
    let history = carillon(&bench, &["rollout", "history", "agent"])
        .ended_with(0)
        .stdout;
    assert!(history.contains("4 (current)   7"), "{history}");
    let refused = carillon(&bench, &["rollout", "pause", "agent"])
        .ended_with(1)
        .stderr;
    assert!(
        refused.contains("apps/v1, which has no field to pause"),
        "{refused}"
    );
}

#[test]
fn plan_says_what_becomes_of_each_node_and_how_long_it_takes() {
    let bench = desk().bench("cli-ds-plan");
    let plan = |object: &Value, code| {
        let args = ["plan", "-f", "-"];
        ask(&bench, &args, &object.to_string())
            .ended_with(code)
            .stdout
    };
    let first = plan(&plain(&bench, "busybox:1.36"), 0);
    assert!(
        first.starts_with("agent in namespace cli-ds-plan: 7 nodes get a pod, of 8 nodes\n"),
        "{first}"
    );
    assert!(
        first.contains("1       refused      NodeTaintNotTolerated"),
        "{first}"
    );
    for object in [
        plain(&bench, "busybox:1.36"),
        native(plain(&bench, "busybox:1.36")),
    ] {
        bench.apply(&object);
        let kind = if object["apiVersion"] == "apps/v1" {
            "ds/agent"
        } else {
            "cds/agent"
        };
        if kind == "ds/agent" {
            // Two of one selector would take each other for their own.
            bench.kubectl(&["delete", "cds", "agent"]);
        }
        complete(&bench, kind);
        let unchanged = plan(&object, 0);
        assert_eq!(
            unchanged,
            "agent in namespace cli-ds-plan exists: unchanged\n"
        );
        let mut next = object.clone();
        next["spec"]["template"]["spec"]["containers"][0]["image"] = json!("busybox:1.37");
        next["spec"]["updateStrategy"] = json!({"rollingUpdate": {"maxUnavailable": 2}});
        let changed = plan(&next, 0);
        for part in [
            "agent in namespace cli-ds-plan exists and would be changed: 7 nodes replace their pod\n",
            r#"spec.template.spec.containers[0].image: "busybox:1.36" -> "busybox:1.37""#,
            "7       replaced",
            "Pods are replaced in the order of the names of their nodes, 2 at a time: 4 rounds.",
            "within which half of 7 pods of now became ready",
        ] {
            assert!(changed.contains(part), "{part}: {changed}");
        }
        next["spec"]["template"]["spec"]["nodeSelector"] =
            json!({"kubernetes.io/hostname": "node-0001"});
        let moved = plan(&next, 0);
        let headline = "1 node replaces its pod, 6 nodes lose their pod\n";
        assert!(
            moved.lines().next().unwrap().ends_with(headline.trim_end()),
            "{moved}"
        );
        let mut wrong = object.clone();
        wrong["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Sometimes");
        let refused = plan(&wrong, 2);
        assert!(
            refused.starts_with("agent in namespace cli-ds-plan: REFUSED, nothing would change\n"),
            "{refused}"
        );
        assert!(refused.contains("imagePullPolicy"), "{refused}");
    }
}

#[test]
fn a_daemon_set_is_found_by_its_name_and_by_its_kind_where_two_have_it() {
    let bench = desk().bench("cli-ds-names");
    bench.apply(&set(
        &bench,
        "busybox:1.37",
        &json!({}),
        &json!({"type": "OnDelete"}),
    ));
    for args in [
        &["rollout", "status", "agnet"][..],
        &["get", "agnet"],
        &["explain", "agnet"],
    ] {
        let none = carillon(&bench, args).ended_with(1).stderr;
        assert!(none.contains("There are: agent"), "{none}");
    }
    let paused = json!({"paused": true});
    let mut job = bench.job("agent", &json!({}), &paused);
    bench.apply(&job);
    let both = carillon(&bench, &["get", "agent"]).ended_with(1).stderr;
    assert!(both.contains("write cbj/agent, or cds/agent"), "{both}");
    let one = carillon(&bench, &["get", "cds/agent", "-o", "name"])
        .ended_with(0)
        .stdout;
    assert_eq!(one, "daemonset.carillon.dev/agent\n");
    job["metadata"]["name"] = json!("fix");
    bench.apply(&job);
    let all = carillon(&bench, &["get"]).ended_with(0).stdout;
    for name in ["cbj/agent", "cbj/fix", "cds/agent"] {
        assert!(all.contains(name), "{all}");
    }
    let names = carillon(&bench, &["get", "cds", "-o", "name"])
        .ended_with(0)
        .stdout;
    assert_eq!(names, "daemonset.carillon.dev/agent\n");
    let completed = |words: &[&str]| {
        let words = [&["__complete"], words, &["-n", "cli-ds-names", "ag"]].concat();
        carillon(&bench, &words).ended_with(0).stdout
    };
    assert_eq!(completed(&["rollout", "undo"]), "agent\n:4\n");
    assert_eq!(completed(&["explain"]), "agent\n:4\n");
}

/// What a verb ends with for whoever may only read DaemonSets, and what it says; then who may read nodes, too.
const CASES: [(&[&str], i32, &str); 8] = [
    (&["get", "cds"], 0, "7/7"),
    (&["get", "cds/agent"], 0, "NodeTaintNotTolerated"),
    (&["rollout", "status", "cds/agent"], 0, "Complete"),
    (&["explain", "cds/agent"], 0, "you may not read nodes"),
    (
        &["explain", "cds/agent", "--node", "node-0006"],
        0,
        "you may not read nodes",
    ),
    (
        &["rollout", "history", "cds/agent"],
        1,
        "you may not list ControllerRevisions",
    ),
    (&["rollout", "pause", "cds/agent"], 1, "is forbidden"),
    (&["plan", "-f", "-"], 0, "you may not list nodes"),
];
const WITH_NODES: [(&[&str], i32, &str); 3] = [
    (&["explain", "cds/agent"], 0, "you may not list pods"),
    (
        &["explain", "cds/agent", "--node", "node-0006"],
        0,
        "remove the taint",
    ),
    (&["plan", "-f", "-"], 0, "you may not create DaemonSets"),
];

#[test]
fn each_verb_does_what_its_user_may_and_says_what_is_missing() {
    let bench = desk().bench("cli-ds-roles");
    bench.apply(&plain(&bench, "busybox:1.37"));
    complete(&bench, "agent");
    let manifest = plain(&bench, "busybox:1.36").to_string();
    bench.kubectl(&["create", "serviceaccount", "reader"]);
    let account = format!("--serviceaccount={}:reader", bench.name);
    let resource = "--resource=daemonsets.carillon.dev";
    bench.kubectl(&["create", "role", "reader", "--verb=get,list", resource]);
    bench.kubectl(&["create", "rolebinding", "reader", "--role=reader", &account]);
    let token = bench.kubectl(&["create", "token", "reader"]);
    let kubeconfig = bench
        .cluster
        .kubeconfig_for_token(&token, "ds-reader")
        .unwrap();
    let check = |cases: &[(&[&str], i32, &str)]| {
        let mut wrong = Vec::new();
        for (args, code, says) in cases {
            let mut command = super::desk::command(bench.cluster, bench.name);
            command.env("KUBECONFIG", &kubeconfig).args(*args);
            let answer = super::desk::finish(command, &manifest);
            if answer.code != *code || !said(&answer).contains(says) {
                wrong.push(format!("{args:?}: expected {code} {says:?}: {answer:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    };
    check(&CASES);
    bench.kubectl(&[
        "create",
        "clusterrole",
        "cli-ds-nodes",
        "--verb=get,list",
        "--resource=nodes",
    ]);
    let role = "--clusterrole=cli-ds-nodes";
    bench.kubectl(&[
        "create",
        "clusterrolebinding",
        "cli-ds-nodes",
        role,
        &account,
    ]);
    check(&WITH_NODES);
}
