//! What is installed.

use carillon_testbed::carillon::{NAMESPACE, RELEASE};
use serde_json::{Value, json};

use super::ward::{Report, Turn, turn};

const DEPLOYMENT: &str = "Deployment carillon-system/carillon";

#[test]
fn an_installation_by_the_chart_is_well() {
    let turn = turn();
    let report = turn.report(None);
    for check in [
        "crds",
        "operator",
        "releases",
        "leader",
        "controllers",
        "rights",
        "webhooks",
        "pods",
        "quotas",
        "taints",
        "finalizers",
        "objects",
        "your rights",
    ] {
        report.is_ok(check);
    }
    assert_eq!(report.code, 0);
    let text = turn.ask(None, &[]).ended_with(0).stdout;
    assert!(
        text.starts_with("CHECK         RESULT   FOUND\ncrds          ok       4 of 4 are there\n"),
        "{text}"
    );
    assert!(text.ends_with("\n0 problems, 0 warnings\n"), "{text}");
}

#[test]
fn without_crds_it_says_what_to_install_and_with_some_which_are_missing() {
    let turn = turn();
    let bare = Report::of(&turn.ward.bare);
    let nothing = bare.finds(
        "crds",
        "Problem",
        "carillon.dev",
        "Carillon is not installed",
    );
    let write = nothing["remedies"][0]["write"].as_str().unwrap();
    assert!(
        write.starts_with("helm upgrade --install carillon"),
        "{write}"
    );
    assert_eq!(bare.check("leader")["result"], "NotChecked");
    let partial = Report::of(&turn.ward.partial);
    let missing = "CustomResourceDefinition noderesultslices.carillon.dev";
    partial.finds("crds", "Problem", missing, "is not there");
}

#[test]
fn a_crd_that_lacks_a_field_is_stale() {
    let turn = turn();
    let field =
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/lastSuccessfulTime";
    let patch = json!([{"op": "remove", "path": field}]).to_string();
    turn.kubectl(&[
        "patch",
        "crd",
        "cronjobs.carillon.dev",
        "--type=json",
        "-p",
        &patch,
    ]);
    let report = turn.report(None);
    let place = "CustomResourceDefinition cronjobs.carillon.dev";
    report.finds(
        "crds",
        "Problem",
        place,
        "lacks 1 field: status.lastSuccessfulTime",
    );
    turn.restore_crds();
    turn.report(None).is_ok("crds");
}

#[test]
fn an_operator_of_another_version_or_that_does_not_run_is_found() {
    let turn = turn();
    let rolled_out = || {
        turn.kubectl(&["rollout", "status", "deployment", RELEASE, "-n", NAMESPACE]);
    };
    let image = |image: &str| {
        let image = format!("carillon={image}");
        turn.kubectl(&[
            "set",
            "image",
            "deployment",
            RELEASE,
            "-n",
            NAMESPACE,
            &image,
        ]);
        rolled_out();
    };
    let scale = |replicas: &str| {
        turn.kubectl(&["scale", "deployment", RELEASE, "-n", NAMESPACE, replicas]);
        rolled_out();
    };
    let was = turn.get(&["deployment", RELEASE, "-n", NAMESPACE]);
    let containers = &was["spec"]["template"]["spec"]["containers"];
    let version = containers[0]["image"].as_str().unwrap();
    let replicas = format!("--replicas={}", was["spec"]["replicas"]);
    image("example.com/carillon:0.0.1");
    turn.report(None)
        .finds("operator", "Warning", DEPLOYMENT, "it is of version 0.0.1");
    image(version);
    turn.report(None).is_ok("operator");
    scale("--replicas=0");
    turn.report(None)
        .finds("operator", "Problem", DEPLOYMENT, "it is scaled to 0");
    scale(&replicas);
    turn.report(None).is_ok("operator");
}

#[test]
fn without_a_leader_leases_and_finalizers_say_so() {
    let turn = turn();
    let bench = turn.bench("doctor-leader");
    let slow = json!({"*": {"run-time": "1h"}});
    bench.apply(&bench.job("long", &slow, &json!({"parallelism": 1})));
    bench.until("a pod runs", || {
        (bench.get("long")["status"]["active"] == 1).then_some(())
    });
    let led = turn.report(None);
    led.is_ok("leader");
    led.is_ok("finalizers");
    turn.kill_operator();
    let report = bench.until("its lease has run out", || {
        let report = turn.report(None);
        (report.check("leader")["result"] == "Problem").then_some(report)
    });
    report.finds(
        "leader",
        "Problem",
        "Lease carillon-system/carillon",
        "nobody leads",
    );
    let what = "carillon.dev/result-tracking is on 1 Pod";
    report.finds("finalizers", "Warning", "Namespace doctor-leader", what);
    turn.start_operator();
    // It takes the lease over when it has seen for as long as that lasts that nobody renews it.
    let report = bench.until("it leads", || {
        let report = turn.report(None);
        (report.check("leader")["result"] == "Ok").then_some(report)
    });
    report.is_ok("finalizers");
    turn.kubectl(&["delete", "cbj", "long", "-n", "doctor-leader"]);
}

/// Another release that serves all namespaces, with a lease of its own.
fn second(turn: &Turn) -> Value {
    let mut second = turn.get(&["deployment", RELEASE, "-n", NAMESPACE]);
    second["metadata"] =
        json!({"name": "other", "namespace": NAMESPACE, "labels": second["metadata"]["labels"]});
    second.as_object_mut().unwrap().remove("status");
    second["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] = json!("other");
    second["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("other");
    let args = &mut second["spec"]["template"]["spec"]["containers"][0]["args"];
    args.as_array_mut()
        .unwrap()
        .push(json!("--lease-name=other"));
    second
}

#[test]
fn two_releases_that_serve_the_same_namespaces_are_found() {
    let turn = turn();
    turn.apply(&second(&turn));
    let report = turn.report(None);
    report.finds(
        "releases",
        "Problem",
        DEPLOYMENT,
        "Deployment carillon-system/other both serve broadcastjob",
    );
    turn.kubectl(&["delete", "deployment", "other", "-n", NAMESPACE]);
    turn.report(None).is_ok("releases");
}

#[test]
fn two_controllers_of_one_kind_are_found_by_flags_and_by_who_writes() {
    let turn = turn();
    let bench = turn.bench("doctor-two");
    let was = turn.get(&["deployment", RELEASE, "-n", NAMESPACE]);
    let serve = json!([{"op": "add", "path": "/spec/template/spec/containers/0/args/-",
                        "value": "--serve-native=daemonsets"}]);
    let patch = |patch: &Value| {
        let patch = patch.to_string();
        turn.kubectl(&[
            "patch",
            "deployment",
            RELEASE,
            "-n",
            NAMESPACE,
            "--type=json",
            "-p",
            &patch,
        ]);
    };
    let manager = |controllers: &str| {
        turn.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "kcm", "namespace": "kube-system", "labels": {"component": "kube-controller-manager"}},
            "spec": {"containers": [{"name": "kcm", "image": "kcm",
                                     "command": ["kube-controller-manager", format!("--controllers={controllers}")]}]},
        }));
    };
    let place = "Pod kube-system/kcm";
    manager("*");
    turn.report(None).is_ok("controllers");
    patch(&serve);
    let what =
        "runs its daemonset-controller, and Deployment carillon-system/carillon serves daemonsets";
    turn.report(None)
        .finds("controllers", "Problem", place, what);
    let args = &was["spec"]["template"]["spec"]["containers"][0]["args"];
    patch(
        &json!([{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}]),
    );
    turn.kubectl(&["delete", "pod", "kcm", "-n", "kube-system", "--now"]);
    manager("*,-job-controller");
    let nobody = "leaves out its job-controller, and no operator serves jobs of Kubernetes";
    turn.report(None)
        .finds("controllers", "Problem", place, nobody);
    turn.kubectl(&["delete", "pod", "kcm", "-n", "kube-system", "--now"]);

    bench.apply(&json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": bench.name},
        "spec": {"selector": {"matchLabels": {"app": "agent"}},
                 "template": {"metadata": {"labels": {"app": "agent"}},
                              "spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]}}},
    }));
    bench.kubectl(&["rollout", "status", "ds/agent"]);
    let ours = [
        "--subresource=status",
        "--field-manager=carillon",
        "--type=merge",
    ];
    let status = ["-p", r#"{"status": {"collisionCount": 0}}"#];
    bench.kubectl(&[&["patch", "ds", "agent"] as &[&str], &ours, &status].concat());
    let both = "two controllers serve it";
    turn.report(None)
        .finds("controllers", "Problem", "DaemonSet doctor-two/agent", both);
    bench.kubectl(&["delete", "ds", "agent"]);
    turn.report(None).is_ok("controllers");
}

#[test]
fn a_right_that_the_operator_lacks_is_named_with_the_rule_to_add() {
    let turn = turn();
    let mut was = turn.get(&["clusterrole", RELEASE]);
    was["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|key, _| key != "resourceVersion");
    let mut less = was.clone();
    let rules = less["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["resources"] != json!(["events"]));
    turn.apply(&less);
    let report = turn.report(None);
    let place = "ServiceAccount carillon-system/carillon";
    let found = report.finds(
        "rights",
        "Problem",
        place,
        "it may not create events.events.k8s.io everywhere",
    );
    let rule = found["remedies"][1]["write"].as_str().unwrap();
    assert!(rule.contains("apiGroups: [\"events.k8s.io\"]"), "{rule}");
    turn.apply(&was);
    turn.report(None).is_ok("rights");
}

#[test]
fn what_a_user_may_not_read_is_not_checked() {
    let turn = turn();
    let bench = turn.bench("doctor-rights");
    bench.kubectl(&["create", "serviceaccount", "viewer"]);
    let account = "--serviceaccount=doctor-rights:viewer";
    bench.kubectl(&[
        "create",
        "rolebinding",
        "viewer",
        "--clusterrole=carillon-view",
        account,
    ]);
    let token = bench.kubectl(&["create", "token", "viewer"]);
    let kubeconfig = bench
        .cluster
        .kubeconfig_for_token(&token, "viewer")
        .unwrap();
    let ask = |namespace: &[&str]| {
        let mut args = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
        args.extend(namespace);
        args.extend(["-o", "json"]);
        Report::of(&turn.ask(None, &args))
    };
    let report = ask(&["-n", "doctor-rights"]);
    for (check, why) in [
        ("crds", "you may not list customresourcedefinitions"),
        (
            "operator",
            "you may not list deployments.apps in all namespaces",
        ),
        (
            "leader",
            "you may not list leases.coordination.k8s.io in all namespaces",
        ),
        (
            "webhooks",
            "you may not list validatingwebhookconfigurations",
        ),
        (
            "quotas",
            "you may not list resourcequotas in namespace doctor-rights",
        ),
        ("taints", "you may not list nodes"),
        ("finalizers", "whether an operator leads is not known"),
    ] {
        let found = report.check(check);
        assert_eq!(found["result"], "NotChecked", "{found:#}");
        assert!(found["found"].as_str().unwrap().contains(why), "{found:#}");
    }
    report.is_ok("objects");
    report.finds(
        "your rights",
        "Info",
        "you",
        "you may not list nodes, which explain, plan need",
    );
    assert_eq!(report.code, 0);
    let everywhere = ask(&[]);
    let found = &everywhere.check("objects")["found"];
    let why = "you may not list broadcastjobs.carillon.dev in all namespaces";
    assert!(found.as_str().unwrap().ends_with(why), "{found}");
}
