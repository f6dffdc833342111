//! What may change in a stored CronJob, also in one from before a rule.

use carillon_tests::admission::wait_established;
use carillon_tests::{kubectl, namespace, until};
use http::Method;
use serde_json::{Value, json};

use super::{OURS, broadcast_cron_job, cron_job, send};

const GROUP: &str = "legacy-cron.example.com";

/// A merge patch that is not stored.
fn try_change(path: &str, change: &Value) -> Result<(), String> {
    send(Method::PATCH, &format!("{path}?dryRun=All"), change)
        .map(|_| ())
        .map_err(|refused| refused.message)
}

#[track_caller]
fn is_refused(path: &str, change: &Value, words: &str) {
    let message = try_change(path, change).expect_err("accepted");
    assert!(message.contains(words), "{change}: {message}");
}

#[test]
fn templates_and_all_settings_may_change_at_any_time() {
    let namespace = namespace("admit-cron-changes");
    let path = format!("/apis/{OURS}/namespaces/{namespace}/cronjobs");
    for (name, cron_job) in [
        ("job", cron_job(OURS, "job")),
        ("broadcast", broadcast_cron_job("broadcast")),
    ] {
        send(Method::POST, &path, &cron_job).unwrap();
        let template = match name {
            "job" => "jobTemplate",
            _ => "broadcastJobTemplate",
        };
        let pod = |pod: Value| json!({"spec": {template: {"spec": {"template": {"spec": pod}}}}});
        for change in [
            pod(json!({"restartPolicy": "Never"})),
            pod(json!({"nodeSelector": {"a": "b"}, "futureField": 1})),
            pod(
                json!({"containers": [{"name": "other", "image": "b"}, {"name": "main", "image": "c"}]}),
            ),
            json!({"spec": {template: {"spec": {"parallelism": 3}}}}),
            json!({"spec": {template: {"metadata": {"labels": {"a": "b"}}}}}),
            json!({"spec": {"schedule": "@hourly", "timeZone": "Etc/UTC", "suspend": true}}),
            json!({"spec": {"concurrencyPolicy": "Replace", "missedRunPolicy": "Skip"}}),
        ] {
            try_change(&format!("{path}/{name}"), &change).unwrap();
        }
    }
    let broadcast = json!({"spec": {"broadcastJobTemplate": {
        "spec": {"executionPolicy": "AtMostOnce", "nodeNames": ["a"], "completionPolicy": {"activeDeadlineSeconds": 60},
                 "template": {"spec": {"restartPolicy": "Never"}}},
    }}});
    try_change(&format!("{path}/broadcast"), &broadcast).unwrap();
    let template = broadcast_cron_job("x")["spec"]["broadcastJobTemplate"].clone();
    let switched = json!({"spec": {"jobTemplate": null, "broadcastJobTemplate": template}});
    try_change(&format!("{path}/job"), &switched).unwrap();
}

/// Our CRD in another group: as it is, and without the rules of the spec.
fn legacy_crd() -> (Value, Value) {
    let crds = carillon_api::crds();
    let crd = crds.iter().find(|crd| crd.spec.names.plural == "cronjobs");
    let mut strict = serde_json::to_value(crd.unwrap()).unwrap();
    strict["metadata"]["name"] = format!("cronjobs.{GROUP}").into();
    strict["spec"]["group"] = GROUP.into();
    strict["spec"]["names"] = json!({
        "kind": "CronJob", "plural": "cronjobs", "singular": "cronjob",
        "shortNames": ["legacyccj"],
    });
    let mut lenient = strict.clone();
    let schema = &mut lenient["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    schema["x-kubernetes-validations"].take();
    (strict, lenient)
}

/// Stores CronJobs that the rules refuse, puts the rules in force, and gives the path of the
/// collection and the names.
fn stored_before_the_rules() -> (String, Vec<String>) {
    let (strict, lenient) = legacy_crd();
    let apply = |crd: &Value| {
        let args = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        kubectl(&args, Some(&crd.to_string())).succeeded();
    };
    apply(&lenient);
    wait_established(&format!("cronjobs.{GROUP}"));
    let namespace = namespace("admit-cron-legacy");
    let path = format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/cronjobs");
    let long = "a".repeat(60);
    let mut names = Vec::new();
    for (name, schedule, zone) in [
        ("inline-zone", "TZ=Asia/Tokyo 0 10 * * *", json!(null)),
        ("inline-daily", "CRON_TZ=Asia/Tokyo  @daily ", json!(null)),
        ("bad-zone", "0 10 * * *", json!("not a zone")),
        ("bad-schedule", "0 0 * * 7", json!(null)),
        (&long, "0 10 * * *", json!(null)),
    ] {
        let mut old = cron_job(&format!("{GROUP}/v1alpha1"), name);
        old["metadata"]["finalizers"] = json!(["example.com/hold"]);
        old["spec"]["schedule"] = schedule.into();
        old["spec"]["timeZone"] = zone;
        send(Method::POST, &path, &old).unwrap();
        names.push(name.to_owned());
    }
    apply(&strict);
    until("the rules are in force", || {
        let new = cron_job(&format!("{GROUP}/v1alpha1"), &"b".repeat(60));
        send(Method::POST, &format!("{path}?dryRun=All"), &new).is_err()
    });
    (path, names)
}

/// A native CronJob may have been stored with what is refused today, and so may one of ours.
#[test]
fn what_is_stored_already_may_stay_and_can_be_reported_on_and_deleted() {
    let (path, names) = stored_before_the_rules();
    let schedule = |schedule: &str| json!({"spec": {"schedule": schedule}});
    let inline = format!("{path}/inline-zone");
    try_change(
        &inline,
        &schedule("CRON_TZ=Europe/Berlin 0/5 9-17 * * mon-fri"),
    )
    .unwrap();
    try_change(&inline, &schedule("TZ= @every 1h ")).unwrap();
    try_change(&inline, &schedule("0 10 * * *")).unwrap();
    is_refused(
        &inline,
        &schedule("TZ=Asia/Tokyo 0 99 * * *"),
        "the hour must be 0 to 23",
    );
    is_refused(
        &inline,
        &schedule("TZ=Asia/Tokyo 0 10 * *"),
        "must have five fields",
    );
    is_refused(
        &inline,
        &schedule("TZ=Asia/Tokyo @reboot"),
        "there is no @reboot",
    );
    let zone = json!({"spec": {"timeZone": "Etc/UTC"}});
    is_refused(
        &inline,
        &zone,
        "cannot be used together with TZ or CRON_TZ in schedule",
    );
    let moved = json!({"spec": {"timeZone": "Asia/Tokyo", "schedule": "0 10 * * *"}});
    try_change(&inline, &moved).unwrap();

    let bad_zone = format!("{path}/bad-zone");
    try_change(&bad_zone, &json!({"spec": {"suspend": true}})).unwrap();
    try_change(&bad_zone, &schedule("0 11 * * *")).unwrap();
    try_change(&bad_zone, &zone).unwrap();
    let other = json!({"spec": {"timeZone": "nor is this"}});
    is_refused(&bad_zone, &other, "must be the name of a time zone");
    is_refused(
        &bad_zone,
        &schedule("TZ=UTC 0 1 * * *"),
        "cannot use TZ or CRON_TZ in schedule",
    );

    for name in names {
        let path = format!("{path}/{name}");
        for (path, patch) in [
            (
                format!("{path}/status"),
                json!({"status": {"missedRuns": 1}}),
            ),
            (path.clone(), json!({"spec": {"suspend": true}})),
            (path.clone(), json!({"metadata": {"finalizers": null}})),
        ] {
            send(Method::PATCH, &path, &patch).unwrap();
        }
        send(Method::DELETE, &path, &Value::Null).unwrap();
    }
    let crd = format!("crd/cronjobs.{GROUP}");
    kubectl(&["delete", &crd, "--wait=false"], None).succeeded();
}
