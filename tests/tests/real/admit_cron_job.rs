//! What the API server accepts as a CronJob, and what it says otherwise; and that it accepts what
//! it accepts as a native one.
//!
//! The rules are in the CRD, so nothing but the API server takes part.

mod changes;
mod schedules;
mod templates;

use carillon_tests::admission::{send, try_create, with};
use carillon_tests::{kubectl, namespace};
use http::Method;
use serde_json::{Value, json};

const OURS: &str = "carillon.dev/v1alpha1";
const NATIVE: &str = "batch/v1";

/// A small valid CronJob of a group and version.
fn cron_job(api_version: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {
            "schedule": "0 0 1 1 *",
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "OnFailure",
                "containers": [{"name": "main", "image": "busybox"}],
            }}}},
        },
    })
}

/// A small valid one of ours that starts BroadcastJobs.
fn broadcast_cron_job(name: &str) -> Value {
    let mut cron_job = cron_job(OURS, name);
    let job = cron_job["spec"]["jobTemplate"].take();
    cron_job["spec"]["broadcastJobTemplate"] = job;
    cron_job
}

/// What is wrong with the answer, if it should be refused with `words`.
fn not_refused(cron_job: &Value, words: &str) -> Option<String> {
    match try_create(cron_job) {
        Err(refused) if refused.message.contains(words) => None,
        Err(refused) => Some(format!("expected {words:?}, got {refused:?}")),
        Ok(_) => Some(format!("expected {words:?}, was accepted")),
    }
}

/// (what, where, value, words of the message)
type Refusal = (&'static str, &'static str, Value, &'static str);

#[track_caller]
fn each_is_refused(base: &Value, table: Vec<Refusal>) {
    let mut wrong = Vec::new();
    for (what, path, value, words) in table {
        if let Some(complaint) = not_refused(&with(base.clone(), path, value), words) {
            wrong.push(format!("{what}: {complaint}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[track_caller]
fn each_is_accepted(cron_jobs: impl IntoIterator<Item = (String, Value)>) {
    let mut wrong = Vec::new();
    for (what, cron_job) in cron_jobs {
        if let Err(refused) = try_create(&cron_job) {
            wrong.push(format!("{what}: {}", refused.message));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_refused_setting_is_refused_with_the_field_and_the_remedy() {
    #[rustfmt::skip]
    let table: Vec<Refusal> = vec![
        ("name too long", "/metadata/name", json!("a".repeat(53)), "metadata.name must be no more than 52 characters"),
        ("name not a DNS subdomain", "/metadata/name", json!("A"), "RFC 1123 subdomain"),
        ("no schedule", "/spec/schedule", json!(null), "spec.schedule: Required value"),
        ("schedule a number", "/spec/schedule", json!(5), "spec.schedule in body must be of type string"),
        ("schedule empty", "/spec/schedule", json!(""), "spec.schedule: Invalid value: \"\": spec.schedule in body should be at least 1 chars long"),
        ("schedule too long", "/spec/schedule", json!(format!("{} * * * *", ",".repeat(1020))), "spec.schedule: Too long: may not be more than 1024"),
        ("time zone empty", "/spec/timeZone", json!(""), "spec.timeZone: Invalid value: \"\": must be the name of a time zone, e.g. Europe/Berlin"),
        ("time zone Local", "/spec/timeZone", json!("lOcal"), "must be the name of a time zone, e.g. Europe/Berlin or Etc/UTC, and not Local"),
        ("time zone of a path", "/spec/timeZone", json!("../UTC"), "must be the name of a time zone"),
        ("time zone with an empty part", "/spec/timeZone", json!("Europe//Berlin"), "must be the name of a time zone"),
        ("time zone with a long part", "/spec/timeZone", json!("Europe/Aaaaaaaaaaaaaaa"), "must be the name of a time zone"),
        ("time zone with -", "/spec/timeZone", json!("Etc/-5"), "must be the name of a time zone"),
        ("time zone with blanks", "/spec/timeZone", json!("Europe/Berlin "), "must be the name of a time zone"),
        ("deadline negative", "/spec/startingDeadlineSeconds", json!(-1), "spec.startingDeadlineSeconds: Invalid value: -1: must be 0 or more seconds; for no deadline leave the field out"),
        ("concurrency policy unknown", "/spec/concurrencyPolicy", json!("forbid"), "spec.concurrencyPolicy: Unsupported value: \"forbid\": supported values: \"Allow\", \"Forbid\", \"Replace\""),
        ("suspend a word", "/spec/suspend", json!("no"), "spec.suspend in body must be of type boolean"),
        ("history negative", "/spec/successfulJobsHistoryLimit", json!(-1), "spec.successfulJobsHistoryLimit: Invalid value: -1: must be 0 or more"),
        ("failed history negative", "/spec/failedJobsHistoryLimit", json!(-1), "spec.failedJobsHistoryLimit: Invalid value: -1: must be 0 or more"),
        ("jitter negative", "/spec/jitterSeconds", json!(-1), "spec.jitterSeconds: Invalid value: -1: must be 0 to 86400 seconds"),
        ("jitter of more than a day", "/spec/jitterSeconds", json!(86_401), "must be 0 to 86400 seconds"),
        ("missed run policy unknown", "/spec/missedRunPolicy", json!("Never"), "spec.missedRunPolicy: Unsupported value: \"Never\": supported values: \"Latest\", \"Skip\", \"All\""),
        ("DST policy unknown", "/spec/dstPolicy", json!("Twice"), "spec.dstPolicy: Unsupported value: \"Twice\": supported values: \"AsWritten\", \"Once\""),
        ("no template", "/spec/jobTemplate", json!(null), "spec: Invalid value: must have exactly one of jobTemplate and broadcastJobTemplate"),
        ("unknown field", "/spec/jobTemplates", json!({}), "strict decoding error: unknown field \"spec.jobTemplates\""),
    ];
    each_is_refused(&cron_job(OURS, "x"), table);
}

#[test]
fn two_settings_that_contradict_each_other_are_refused() {
    let mut both = cron_job(OURS, "x");
    both["spec"]["broadcastJobTemplate"] = both["spec"]["jobTemplate"].clone();
    let complaint = not_refused(&both, "must have exactly one of jobTemplate");
    assert_eq!(complaint, None);

    let all = with(cron_job(OURS, "x"), "/spec/missedRunPolicy", json!("All"));
    let replace = with(all.clone(), "/spec/concurrencyPolicy", json!("Replace"));
    let words = "spec.missedRunPolicy: Invalid value: must not be All with concurrencyPolicy Replace, \
                 which would start runs only to stop them";
    assert_eq!(not_refused(&replace, words), None);
    let forbid = with(all, "/spec/concurrencyPolicy", json!("Forbid"));
    try_create(&forbid).unwrap();

    let dotted = broadcast_cron_job("a.b");
    let words = "metadata.name must not have dots with broadcastJobTemplate";
    assert_eq!(not_refused(&dotted, words), None);
    try_create(&cron_job(OURS, "a.b")).unwrap();
}

#[test]
fn bounds_are_within() {
    let base = || cron_job(OURS, "x");
    each_is_accepted(
        [
            ("/metadata/name", json!("a".repeat(52))),
            (
                "/spec/schedule",
                json!(format!("{}1 * * * *", "0".repeat(1015))),
            ),
            ("/spec/startingDeadlineSeconds", json!(0)),
            ("/spec/startingDeadlineSeconds", json!(i64::MAX)),
            ("/spec/successfulJobsHistoryLimit", json!(0)),
            ("/spec/failedJobsHistoryLimit", json!(i32::MAX)),
            ("/spec/jitterSeconds", json!(0)),
            ("/spec/jitterSeconds", json!(86_400)),
        ]
        .map(|(path, value)| (path.to_owned(), with(base(), path, value))),
    );
}

#[test]
fn time_zones_are_accepted_by_name() {
    let zones = [
        "UTC",
        "Etc/UTC",
        "Europe/Berlin",
        "America/Argentina/ComodRivadavia",
        "America/Port-au-Prince",
        "Etc/GMT+12",
        "Etc/GMT-14",
        "EST5EDT",
        "GB-Eire",
        "Europe/Isle_of_Man",
    ];
    for api_version in [OURS, NATIVE] {
        each_is_accepted(zones.map(|zone| {
            let cron_job = with(cron_job(api_version, "x"), "/spec/timeZone", json!(zone));
            (zone.to_owned(), cron_job)
        }));
    }
}

#[test]
fn defaults_are_stored_and_those_batch_v1_has_are_the_same() {
    let stored = |api_version| {
        let mut spec = try_create(&cron_job(api_version, "x")).unwrap()["spec"].clone();
        spec.as_object_mut().unwrap().remove("jobTemplate");
        spec
    };
    let mut ours = stored(OURS);
    for (field, default) in [("missedRunPolicy", "Latest"), ("dstPolicy", "AsWritten")] {
        let found = ours.as_object_mut().unwrap().remove(field);
        assert_eq!(found, Some(json!(default)));
    }
    assert_eq!(ours, stored(NATIVE));
}

#[test]
fn null_and_the_empty_policy_mean_the_default() {
    let mut nulls = cron_job(OURS, "x");
    for field in [
        "timeZone",
        "startingDeadlineSeconds",
        "concurrencyPolicy",
        "suspend",
        "broadcastJobTemplate",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
        "jitterSeconds",
        "missedRunPolicy",
        "dstPolicy",
    ] {
        nulls["spec"][field] = json!(null);
    }
    let stored = try_create(&nulls).unwrap();
    let spec: carillon_api::CronJobSpec = serde_json::from_value(stored["spec"].clone()).unwrap();
    assert_eq!(
        spec.concurrency_policy,
        carillon_api::ConcurrencyPolicy::Allow
    );
    assert_eq!(spec.successful_jobs_history_limit, 3);
    assert_eq!(spec.failed_jobs_history_limit, 1);
    assert_eq!(spec.time_zone, None);
    assert_eq!(spec.broadcast_job_template, None);

    let mut broadcast = broadcast_cron_job("x");
    broadcast["spec"]["jobTemplate"] = json!(null);
    try_create(&broadcast).unwrap();
    for api_version in [OURS, NATIVE] {
        let empty = with(
            cron_job(api_version, "x"),
            "/spec/concurrencyPolicy",
            json!(""),
        );
        try_create(&empty).unwrap();
    }
}

/// As `kubectl create cronjob --dry-run=client -o yaml` and other tools print it.
#[test]
fn a_manifest_that_kubectl_made_needs_only_another_api_version() {
    let namespace = namespace("admit-cron-native");
    let made = kubectl(
        &[
            "create",
            "cronjob",
            "made",
            "--image=busybox",
            "--schedule=*/5 * * * *",
            "--restart=Never",
            "--dry-run=client",
            "-o",
            "yaml",
            "--",
            "date",
        ],
        None,
    )
    .succeeded()
    .stdout;
    let ours = made.replace("apiVersion: batch/v1", "apiVersion: carillon.dev/v1alpha1");
    assert_ne!(made, ours);
    for apply in [
        &["apply"][..],
        &["apply", "--server-side", "--force-conflicts"],
    ] {
        let args = [apply, &["-n", &namespace, "-f", "-"]].concat();
        for _ in 0..2 {
            kubectl(&args, Some(&ours)).succeeded();
        }
    }
    let get = ["get", "ccj", "made", "-n", &namespace, "-o", "json"];
    assert_eq!(kubectl(&get, None).json()["metadata"]["generation"], 1);
}

#[test]
fn the_examples_are_accepted() {
    let examples = carillon_testbed::carillon::workspace().join("examples");
    let mut found = 0;
    for file in std::fs::read_dir(examples).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap();
        if name.starts_with("cronjob-") {
            let file = file.to_str().unwrap();
            kubectl(&["create", "--dry-run=server", "-f", file], None).succeeded();
            found += 1;
        }
    }
    assert!(found >= 5, "{found} examples");
}

#[test]
fn kubectl_get_shows_what_it_shows_of_native_ones_and_when_the_next_run_is() {
    let namespace = namespace("admit-cron-table");
    let mut shown = broadcast_cron_job("shown");
    shown["spec"]["timeZone"] = json!("Etc/UTC");
    let path = format!("/apis/{OURS}/namespaces/{namespace}/cronjobs");
    send(Method::POST, &path, &shown).unwrap();
    let status = json!({"status": {
        "active": [{"apiVersion": "batch/v1", "kind": "Job", "namespace": namespace, "name": "shown-1"}],
        "running": 1,
        "summary": "Scheduled",
        "nextScheduleTime": "2027-01-01T00:00:00Z",
        "missedRuns": 2,
        "conditions": [
            {"type": "Scheduled", "status": "True", "reason": "Scheduled", "message": "",
             "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ],
    }});
    let path = format!("{path}/shown/status");
    send(Method::PATCH, &path, &status).unwrap();
    let table = |more: &[&str]| {
        let args = [&["get", "ccj", "-n", &namespace], more].concat();
        let table = kubectl(&args, None).succeeded().stdout;
        let lines = table.lines().map(|line| {
            let words = line.split("  ").map(str::trim);
            words
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        });
        lines.collect::<Vec<Vec<String>>>()
    };
    let narrow = table(&[]);
    let heads = "NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST-SCHEDULE NEXT STATUS AGE";
    assert_eq!(narrow[0], heads.split(' ').collect::<Vec<_>>());
    let row = [
        "shown",
        "0 0 1 1 *",
        "Etc/UTC",
        "false",
        "1",
        "2027-01-01T00:00:00Z",
        "Scheduled",
    ];
    assert_eq!(narrow[1][..7], row);
    let wide = table(&["-o", "wide"]);
    assert_eq!(wide[0][9..], ["MISSED", "REASON", "CONCURRENCY", "IMAGE"]);
    assert_eq!(wide[1][8..], ["2", "Scheduled", "Allow", "busybox"]);
}
