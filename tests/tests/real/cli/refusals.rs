//! What is said where the API server refuses something: what to write, create or ask for.

use serde_json::{Value, json};

use super::cron_jobs::cron;
use super::desk::{Answer, ask, carillon, desk};

#[test]
fn plan_says_what_to_write_where_a_value_is_wrong() {
    let bench = desk().bench("cli-types");
    let tolerate = json!({"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}});
    let job = bench.job("fix", &json!({}), &tolerate);
    let problems = |change: &dyn Fn(&mut Value)| -> Vec<String> {
        let mut object = job.clone();
        change(&mut object);
        let answer = ask(
            &bench,
            &["plan", "-f", "-", "-o", "json"],
            &object.to_string(),
        );
        let planned = answer.ended_with(2).json();
        let said = planned["items"][0]["problems"].as_array().unwrap().iter();
        said.map(|problem| problem.as_str().unwrap().to_owned())
            .collect()
    };
    let spec = |field: &'static str, value: Value| {
        problems(&move |job: &mut Value| job["spec"][field] = value.clone())[0].clone()
    };
    let container = |field: &'static str, value: Value| {
        problems(&move |job: &mut Value| {
            job["spec"]["template"]["spec"]["containers"][0][field] = value.clone();
        })[0]
            .clone()
    };
    for (said, expected) in [
        (
            spec("ttlSecondsAfterFinished", json!("10m")),
            r#"spec.ttlSecondsAfterFinished: "10m" is a string: write seconds: 600"#,
        ),
        (
            spec("paused", json!("true")),
            r#"spec.paused: "true" is a string: remove the quotes: true"#,
        ),
        (
            spec("nodeNames", json!("node-0001")),
            r#"spec.nodeNames: "node-0001" is a string: write a list: each item on a line of its own that begins with "- ""#,
        ),
        (
            spec("paralelism", json!(3)),
            "spec.paralelism: there is no such field; did you mean parallelism?",
        ),
        (
            container("imgae", json!("x")),
            "spec.template.spec.containers[0].imgae: there is no such field; did you mean image?",
        ),
        (
            container("command", json!("true")),
            r#"spec.template.spec.containers[0].command: "true" is a string: write a list: each item on a line of its own that begins with "- ""#,
        ),
    ] {
        assert_eq!(said, expected);
    }
    let policy = problems(&|job| job["spec"]["failurePolicy"] = json!({"type": "failfast"}));
    assert!(
        policy[0].starts_with("spec.failurePolicy.type: \"failfast\" ")
            && policy[0].ends_with("did you mean FailFast?"),
        "{policy:?}"
    );
    let missing = problems(&|job| {
        drop(
            job["spec"]["template"]["spec"]["containers"][0]
                .as_object_mut()
                .unwrap()
                .remove("image"),
        );
    });
    let expected = "spec.template.spec.containers[0].image: it is missing, and has to be there";
    assert_eq!(missing, [expected]);
    // A rule of ours has its own words.
    let own = spec("backoffLimitPerNode", json!(-1));
    assert!(
        own.starts_with("spec.backoffLimitPerNode: must be 0 or more"),
        "{own}"
    );
}

#[test]
fn a_missing_service_account_is_named_with_the_command_that_creates_it() {
    let bench = desk().bench("cli-account");
    let account = json!({"template": {"spec": {"serviceAccountName": "nobody"}}});
    bench.apply(&bench.job("fix", &json!({}), &account));
    bench.wait("fix", "Stalled");
    let create = "kubectl -n cli-account create serviceaccount nobody";
    let got = carillon(&bench, &["get", "fix"]).ended_with(0).stdout;
    let says = format!("Stalled: PodForbidden ServiceAccount nobody does not exist: {create} ");
    assert!(got.contains(&says), "{got}");
    let explained = carillon(&bench, &["explain", "fix"]).ended_with(0).stdout;
    let next = format!("Next: {create}; it goes on within a minute then.\n");
    assert!(explained.ends_with(&next), "{explained}");
    bench.kubectl(&["create", "serviceaccount", "nobody"]);
    bench.until_within(std::time::Duration::from_mins(2), "it goes on", || {
        let job = bench.get("fix");
        (job["status"]["succeeded"].as_i64() > Some(0)).then_some(())
    });
}

#[test]
fn a_dry_run_asks_the_api_server_and_changes_nothing() {
    let bench = desk().bench("cli-dry");
    let slow = json!({"*": {"run-time": "10m"}});
    bench.apply(&bench.job("fix", &slow, &json!({"parallelism": 1})));
    bench.apply(&bench.job("held", &slow, &json!({"paused": true})));
    bench.apply(&cron(&bench, "report", &json!({}), &json!({})));
    bench.apply(&cron(
        &bench,
        "stopped",
        &json!({}),
        &json!({"suspend": true}),
    ));
    let version = |what: &str| bench.kubectl(&["get", what, "-o", "jsonpath={.spec}"]);
    let all = ["cbj/fix", "cbj/held", "ccj/report", "ccj/stopped"];
    let before = all.map(version);
    let dry = |args: &[&str]| {
        carillon(&bench, &[args, &["--dry-run"]].concat())
            .ended_with(0)
            .stdout
    };
    for (args, expected) in [
        (
            &["pause", "fix"][..],
            "broadcastjob.carillon.dev/fix paused (dry run)\n",
        ),
        (
            &["resume", "held"],
            "broadcastjob.carillon.dev/held resumed (dry run)\n",
        ),
        (
            &["suspend", "report"],
            "cronjob.carillon.dev/report suspended (dry run)\n",
        ),
        (
            &["trigger", "report"],
            "cronjob.carillon.dev/report would run once more (dry run)\n",
        ),
    ] {
        assert_eq!(dry(args), expected);
    }
    let resumed = dry(&["resume", "stopped"]);
    assert!(
        resumed.starts_with("cronjob.carillon.dev/stopped resumed (dry run)\n"),
        "{resumed}"
    );
    assert_eq!(all.map(version), before);
}

#[test]
fn whoever_asks_as_somebody_else_may_do_what_that_one_may() {
    let bench = desk().bench("cli-as");
    bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
    let jane = |args: &[&str]| -> Answer { carillon(&bench, &[&["--as", "jane"], args].concat()) };
    let denied = jane(&["get", "cbj"]).ended_with(1).stderr;
    assert!(
        denied.contains("User \"jane\" cannot list")
            && denied.contains("Ask for a RoleBinding to the ClusterRole carillon-view"),
        "{denied}"
    );
    bench.kubectl(&[
        "create",
        "role",
        "reader",
        "--verb=get,list",
        "--resource=broadcastjobs.carillon.dev,noderesultslices.carillon.dev",
    ]);
    bench.kubectl(&[
        "create",
        "rolebinding",
        "readers",
        "--role=reader",
        "--group=readers",
    ]);
    let args = [
        "--as-group",
        "others",
        "--as-group",
        "readers",
        "get",
        "cbj",
        "-o",
        "name",
    ];
    bench.until("the role is in force", || {
        let got = jane(&args);
        (got.code == 0).then(|| assert_eq!(got.stdout, "broadcastjob.carillon.dev/fix\n"))
    });
    let alone = carillon(&bench, &["--as-group", "readers", "get"])
        .ended_with(1)
        .stderr;
    assert!(alone.contains("--as"), "{alone}");
}

#[test]
fn a_request_that_cannot_be_read_is_one_event() {
    let bench = desk().bench("cli-garbage");
    let slow = json!({"*": {"run-time": "10m"}});
    bench.apply(&bench.job("fix", &slow, &json!({"parallelism": 1})));
    bench.until("it runs", || {
        (bench.get("fix")["status"]["active"] == 1).then_some(())
    });
    bench.kubectl(&["annotate", "cbj", "fix", "carillon.dev/retry=garbage"]);
    let events = || -> Vec<(String, String)> {
        let text = bench.kubectl(&["get", "events.v1.events.k8s.io", "-o", "json"]);
        let list: Value = serde_json::from_str(&text).unwrap();
        let events = list["items"].as_array().unwrap().iter();
        let ignored = events.filter(|event| event["reason"] == "RequestIgnored");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ignored
            .map(|event| (text(&event["type"]), text(&event["note"])))
            .collect()
    };
    let told = bench.until("it is told", || events().pop());
    assert!(
        told.0 == "Warning" && told.1.contains("garbage"),
        "{told:?}"
    );
    // Whatever else is written, that is not told again.
    bench.kubectl(&["annotate", "cbj", "fix", "example.com/touched=yes"]);
    carillon(&bench, &["pause", "fix"]).ended_with(0);
    bench.wait("fix", "Paused");
    assert_eq!(events().len(), 1);
    let next = carillon(&bench, &["explain", "fix"]).ended_with(0).stdout;
    assert!(
        next.ends_with(
            "Next: it goes on when somebody lets it: kubectl carillon -n cli-garbage resume fix.\n"
        ),
        "{next}"
    );
    let two = carillon(
        &bench,
        &[
            "explain",
            "fix",
            "--node",
            "node-0001,node-0002",
            "--node",
            "node-0003",
        ],
    );
    let two = two.ended_with(0).stdout;
    for node in ["node-0001 in fix", "node-0002 in fix", "node-0003 in fix"] {
        assert!(two.contains(node), "{two}");
    }
}
