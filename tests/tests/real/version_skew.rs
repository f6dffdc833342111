//! CRDs of a later version with this operator, and those of an earlier one: no field is lost, and work goes on.

use carillon_testbed::{Cluster, Operator, Options};
use carillon_tests::lab::{self, Bench, bench};
use serde_json::{Value, json};

const KINDS: [&str; 4] = [
    "broadcastjobs",
    "cronjobs",
    "daemonsets",
    "noderesultslices",
];

/// Changes the schema of a kind of ours.
fn change_schema(cluster: &Cluster, kind: &str, change: impl Fn(&mut Value)) {
    let name = format!("{kind}.carillon.dev");
    let crd = cluster
        .kubectl_ok(["get", "crd", &name, "-o", "json"])
        .unwrap();
    let mut crd: Value = serde_json::from_str(&crd).unwrap();
    change(&mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]);
    cluster
        .kubectl_stdin(["replace", "-f", "-"], &crd.to_string())
        .unwrap();
}

/// A field `later` wherever a later version could have one.
fn add_fields(schema: &mut Value) {
    let field = json!({"type": "string"});
    for part in ["spec", "status"] {
        if schema[part].is_object() {
            schema[part]["properties"]["later"] = field.clone();
        }
    }
    if schema["results"].is_object() {
        schema["later"] = field.clone();
        schema["results"]["items"]["properties"]["later"] = field;
    }
}

fn get(bench: &Bench<'_>, kind: &str, name: &str) -> Value {
    let resource = format!("{kind}.carillon.dev");
    serde_json::from_str(&bench.kubectl(&["get", &resource, name, "-o", "json"])).unwrap()
}

/// Writes the field into the status of an object, as the later version would have.
fn write_status(bench: &Bench<'_>, kind: &str, name: &str) {
    let resource = format!("{kind}.carillon.dev");
    let patch = r#"--patch={"status":{"later":"kept"}}"#;
    bench.kubectl(&[
        "patch",
        &resource,
        name,
        "--subresource=status",
        "--type=merge",
        patch,
    ]);
}

fn assert_kept(object: &Value) {
    for part in ["spec", "status"] {
        assert_eq!(object[part]["later"], "kept", "{part} of {object}");
    }
}

#[test]
fn fields_of_a_later_version_are_kept_by_this_operator() {
    let cluster = lab::cluster("later-crds", 2);
    for kind in KINDS {
        change_schema(&cluster, kind, add_fields);
    }
    let operator = Operator::start(&cluster, &Options::new("operator")).unwrap();
    let bench = bench(&cluster, "later");
    // Whether a field is served is seen only by asking.
    bench.until("the later fields are served", || {
        let mut job = bench.job("probe", &json!({}), &json!({"paused": true}));
        job["spec"]["later"] = json!("kept");
        let created =
            cluster.kubectl_stdin(["create", "--validate=strict", "-f", "-"], &job.to_string());
        created.ok()
    });
    let more = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}, "later": "kept"});
    bench.apply(&bench.job("fix", &json!({&bench.nodes[0]: {"exit-code": 3}}), &more));
    bench.until("it is paused", || {
        (bench.get("fix")["status"]["phase"] == "paused").then_some(())
    });
    write_status(&bench, "broadcastjobs", "fix");
    let selector = "-lcarillon.dev/broadcastjob-name=fix";
    let slice = bench.kubectl(&["get", "nrs", selector, "-o", "name"]);
    let patch = json!([
        {"op": "add", "path": "/later", "value": "kept"},
        {"op": "add", "path": "/results/0/later", "value": "kept"},
    ]);
    let patch = format!("--patch={patch}");
    bench.kubectl(&["patch", slice.trim(), "--type=json", &patch]);
    bench.kubectl(&["annotate", "cbj", "fix", "carillon.dev/resume=1"]);
    assert_kept(&bench.wait("fix", "Complete"));
    let slices: Value =
        serde_json::from_str(&bench.kubectl(&["get", "nrs", selector, "-o", "json"])).unwrap();
    let slice = &slices["items"][0];
    assert_eq!(slice["results"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&slice["later"], &slice["results"][0]["later"]),
        (&json!("kept"), &json!("kept")),
        "{slice}"
    );

    let pod = bench.job("x", &json!({}), &json!({}))["spec"]["template"].clone();
    let cron = json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob",
        "metadata": {"name": "sweep", "namespace": bench.name},
        "spec": {"schedule": "0 0 1 1 *", "later": "kept", "broadcastJobTemplate": {"spec": {"template": pod}}},
    });
    bench.apply(&cron);
    bench.until("it is known", || {
        get(&bench, "cronjobs", "sweep")["status"]
            .is_object()
            .then_some(())
    });
    write_status(&bench, "cronjobs", "sweep");
    let uid = get(&bench, "cronjobs", "sweep")["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    bench.kubectl(&[
        "annotate",
        "ccj",
        "sweep",
        &format!("carillon.dev/run-now={uid}/now"),
    ]);
    bench.until("it has run", || {
        let cron = get(&bench, "cronjobs", "sweep");
        cron["status"]["lastSuccessfulTime"]
            .is_string()
            .then_some(())
    });
    assert_kept(&get(&bench, "cronjobs", "sweep"));

    let labels = json!({"app": "agent"});
    let mut set = json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": bench.name},
        "spec": {"later": "kept", "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]},
        }},
    });
    let updated = |word: &str| {
        bench.until(&format!("{word} pods everywhere"), || {
            let set = get(&bench, "daemonsets", "agent");
            let status = &set["status"];
            let seen = status["observedGeneration"] == set["metadata"]["generation"];
            (seen && status["updatedNumberScheduled"] == 2 && status["numberAvailable"] == 2)
                .then_some(set)
        })
    };
    bench.apply(&set);
    updated("the first");
    write_status(&bench, "daemonsets", "agent");
    set["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "WORD", "value": "next"}]);
    bench.apply(&set);
    assert_kept(&updated("the next"));
    drop(operator);
}

#[test]
fn under_crds_of_an_earlier_version_this_operator_does_without_the_fields_that_they_lack() {
    let cluster = lab::cluster("earlier-crds", 2);
    let lacks = [
        (
            "broadcastjobs",
            &["lost", "retrying", "pausedSeconds", "summary", "done"][..],
        ),
        (
            "daemonsets",
            &["waitingFor", "excused", "refused", "summary"],
        ),
    ];
    for (kind, fields) in lacks {
        change_schema(&cluster, kind, |schema| {
            let status = schema["status"]["properties"].as_object_mut().unwrap();
            for field in fields {
                status.remove(*field);
            }
        });
    }
    let _operator = Operator::start(&cluster, &Options::new("operator")).unwrap();
    let bench = bench(&cluster, "earlier");
    let more = json!({"failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &json!({&bench.nodes[0]: {"exit-code": 3}}), &more));
    let job = bench.wait("fix", "Complete");
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["failed"]),
        (&json!(1), &json!(1))
    );
    let writes = || -> Vec<String> {
        let requests = bench.requests().into_iter();
        let writes = requests.filter(|event| event.subresource == "status");
        writes.map(|event| event.name).collect()
    };
    // What is dropped when it is written must not be written again and again.
    let before = writes().len();
    bench.apply(&bench.job("next", &json!({}), &json!({})));
    bench.wait("next", "Complete");
    let of_fix = writes().iter().filter(|name| *name == "fix").count();
    assert!(of_fix < 10 && before < 20, "{before} writes of a status");
}
