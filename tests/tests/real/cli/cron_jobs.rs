//! The verbs about CronJobs: next, calendar, trigger, suspend, resume.

use carillon_tests::lab::Bench;
use serde_json::{Value, json};

use super::desk::{Answer, ask, carillon, desk};

/// A CronJob of Jobs whose pods meet these fates; it is never due while a test runs.
pub(super) fn cron(bench: &Bench<'_>, name: &str, fates: &Value, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": bench.name},
        "spec": {
            "schedule": "30 1 1 1 *",
            "timeZone": "America/New_York",
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {
                "metadata": {"annotations": {"testbed.carillon.dev/fates": fates.to_string()}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox:1.37"}],
                },
            }}},
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

fn native(bench: &Bench<'_>, name: &str) -> Value {
    let mut object = cron(bench, name, &json!({}), &json!({}));
    object["apiVersion"] = json!("batch/v1");
    object
}

fn get(bench: &Bench<'_>, name: &str) -> Value {
    let text = bench.kubectl(&["get", "cronjobs.carillon.dev", name, "-o", "json"]);
    serde_json::from_str(&text).unwrap()
}

/// The job that was named last in what `trigger` said, as in `… runs job.batch/NAME`.
fn named(answer: &Answer) -> String {
    let name = answer.stdout.split("job.batch/").nth(1);
    name.and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_else(|| panic!("{answer:?}"))
        .to_owned()
}

fn slow() -> Value {
    json!({"*": {"run-time": "10m"}})
}

#[test]
fn a_triggered_run_is_named_and_its_outcome_waited_for() {
    let bench = desk().bench("cli-trigger");
    bench.apply(&cron(&bench, "good", &json!({}), &json!({})));
    let dry = carillon(&bench, &["trigger", "good", "--dry-run"]).ended_with(0);
    let expected = "cronjob.carillon.dev/good would run once more (dry run)\n";
    assert_eq!(dry.stdout, expected);
    assert!(get(&bench, "good")["metadata"]["annotations"]["carillon.dev/run-now"].is_null());

    let once = carillon(&bench, &["trigger", "ccj/good"]).ended_with(0);
    let job = named(&once);
    assert_eq!(
        once.stdout,
        format!("cronjob.carillon.dev/good runs job.batch/{job}\n")
    );
    bench.until("the job that was named is there", || {
        let jobs = bench.kubectl(&["get", "jobs", "-o", "name"]);
        jobs.contains(&job).then_some(())
    });
    let again = carillon(&bench, &["trigger", "good", "--wait", "--timeout", "2m"]).ended_with(0);
    assert_ne!(named(&again), job);
    assert!(again.stdout.ends_with(" Complete\n"), "{again:?}");
    assert_eq!(
        get(&bench, "good")["status"]["handledRunNow"]
            .as_array()
            .unwrap()
            .len(),
        2
    );

    let fails = json!({"*": {"exit-code": 3}});
    bench.apply(&cron(&bench, "bad", &fails, &json!({"suspend": true})));
    let failed = carillon(&bench, &["trigger", "bad", "--wait", "--timeout", "2m"]).ended_with(3);
    assert!(
        failed.stdout.contains("Failed: BackoffLimitExceeded"),
        "{failed:?}"
    );

    bench.until("what came of them is in the calendar", || {
        let month = carillon(&bench, &["calendar", "good", "-o", "json"]).json();
        let days = month["days"].as_array().unwrap().iter();
        let succeeded: i64 = days.filter_map(|day| day["succeeded"].as_i64()).sum();
        let took = &month["overlap"];
        (succeeded == 2 && took["runs"] == 2 && took["compared"] == 0).then_some(())
    });
}

#[test]
fn with_forbid_a_triggered_run_waits_and_is_not_overwritten_by_another() {
    let bench = desk().bench("cli-forbid");
    let forbid = json!({"concurrencyPolicy": "Forbid"});
    bench.apply(&cron(&bench, "slow", &slow(), &forbid));
    let first = named(&carillon(&bench, &["trigger", "slow"]).ended_with(0));
    bench.until("the first one is recorded", || {
        get(&bench, "slow")["status"]["active"][0]["uid"]
            .is_string()
            .then_some(())
    });
    let second = carillon(&bench, &["trigger", "slow"]).ended_with(0);
    let waits = format!("once {first} has ended (concurrencyPolicy Forbid)");
    assert!(second.stdout.contains(&waits), "{second:?}");
    let third = carillon(&bench, &["trigger", "slow"]).ended_with(1);
    assert!(
        third.stderr.contains("was asked for a run already"),
        "{third:?}"
    );
    assert!(third.stderr.contains(&first), "{third:?}");

    bench.kubectl(&["delete", "job", &first, "--timeout=60s"]);
    let second = named(&second);
    bench.until("the second one runs under the name that was told", || {
        let jobs = bench.kubectl(&["get", "jobs", "-o", "name"]);
        jobs.contains(&second).then_some(())
    });
    let late = carillon(&bench, &["trigger", "slow", "--wait", "--timeout", "1s"]).ended_with(2);
    assert!(late.stderr.contains("not within"), "{late:?}");
}

#[test]
fn resume_says_which_run_is_made_up_for_and_that_one_runs() {
    let bench = desk().bench("cli-made-up");
    let every = json!({"schedule": "@every 1h", "timeZone": null, "suspend": true});
    let mut object = cron(&bench, "beat", &json!({}), &every);
    object["spec"].as_object_mut().unwrap().remove("timeZone");
    bench.apply(&object);
    let created: jiff::Timestamp = get(&bench, "beat")["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    // As if it had been suspended for three and a half hours.
    let hours =
        |hours: i64| jiff::Timestamp::from_second(created.as_second() - hours * 3600 - 1800);
    let last = hours(3).unwrap().to_string();
    let in_force = json!({"schedule": "@every 1h", "since": last});
    let status = json!({"lastScheduleTime": last, "scheduleInForce": in_force});
    let status = json!({"status": status}).to_string();
    let args = [
        "patch",
        "ccj",
        "beat",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    bench.kubectl(&args);

    let next = carillon(&bench, &["next", "beat"]).ended_with(0).stdout;
    assert!(
        next.contains("\nSuspended: nothing is started by schedule until"),
        "{next}"
    );
    let again = carillon(&bench, &["suspend", "beat"]).ended_with(0).stdout;
    assert_eq!(again, "cronjob.carillon.dev/beat is suspended already\n");
    let resumed = carillon(&bench, &["resume", "beat"]).ended_with(0).stdout;
    let tick = hours(0).unwrap();
    let shown = tick.strftime("%Y-%m-%d %H:%M:%S +00:00");
    let lines: Vec<&str> = resumed.lines().collect();
    assert_eq!(lines[0], "cronjob.carillon.dev/beat resumed");
    assert_eq!(
        lines[1],
        format!("The run of {shown} is made up for at once")
    );
    assert_eq!(
        lines[2],
        "2 runs that came before are not made up for (missedRunPolicy Latest)"
    );
    assert!(
        lines[3].starts_with("The next run is that of "),
        "{resumed}"
    );
    let minutes = tick.as_second() / 60;
    bench.until("that run was started", || {
        let jobs = bench.kubectl(&["get", "jobs", "-o", "name"]);
        jobs.contains(&format!("beat-{minutes}")).then_some(())
    });
    bench.until("the others are counted as missed", || {
        (get(&bench, "beat")["status"]["missedRuns"] == 2).then_some(())
    });
    let again = carillon(&bench, &["resume", "cronjob/beat"])
        .ended_with(0)
        .stdout;
    assert_eq!(again, "cronjob.carillon.dev/beat is not suspended\n");
}

#[test]
fn suspend_names_what_goes_on_and_resume_of_a_name_that_two_have_asks_for_the_kind() {
    let bench = desk().bench("cli-suspend");
    bench.apply(&cron(&bench, "clean", &slow(), &json!({})));
    let job = named(&carillon(&bench, &["trigger", "clean"]).ended_with(0));
    let suspended = carillon(&bench, &["suspend", "clean"]).ended_with(0).stdout;
    let expected = format!("cronjob.carillon.dev/clean suspended\n1 run goes on: {job}\n");
    assert_eq!(suspended, expected);
    assert_eq!(get(&bench, "clean")["spec"]["suspend"], true);

    let paused = json!({"paused": true});
    bench.apply(&bench.job("clean", &json!({}), &paused));
    let both = carillon(&bench, &["resume", "clean"]).ended_with(1);
    assert!(
        both.stderr.contains("write cbj/clean or cronjob/clean"),
        "{both:?}"
    );
    let cron_job = carillon(&bench, &["resume", "cronjob/clean"]).ended_with(0);
    assert!(
        cron_job
            .stdout
            .starts_with("cronjob.carillon.dev/clean resumed\nThe next run is")
    );
    let job = carillon(&bench, &["resume", "cbj/clean"]).ended_with(0);
    assert_eq!(job.stdout, "broadcastjob.carillon.dev/clean resumed\n");

    let none = carillon(&bench, &["resume", "cleaner"]).ended_with(1);
    assert!(
        none.stderr.contains("There is no CronJob cleaner either"),
        "{none:?}"
    );
    let none = carillon(&bench, &["suspend", "cleaner"]).ended_with(1);
    assert!(none.stderr.contains("There are: clean"), "{none:?}");
}

#[test]
fn next_is_that_of_a_cron_job_of_ours_or_else_of_batch_or_of_a_file() {
    let bench = desk().bench("cli-next");
    bench.apply(&native(&bench, "books"));
    let head = |args: &[&str]| {
        let answer = carillon(&bench, args).ended_with(0).stdout;
        answer.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        head(&["next", "books"]),
        "cronjob.batch/books: \"30 1 1 1 *\" in America/New_York"
    );
    let jitter = json!({"jitterSeconds": 3600, "dstPolicy": "Once"});
    bench.apply(&cron(&bench, "books", &json!({}), &jitter));
    assert_eq!(
        head(&["next", "books"]),
        "cronjob.carillon.dev/books: \"30 1 1 1 *\" in America/New_York, dstPolicy Once"
    );
    assert!(head(&["next", "cj/books"]).starts_with("cronjob.batch/books"));

    // What it says is what the operator says.
    let told = bench.until("the operator says when it runs next", || {
        let next = &get(&bench, "books")["status"]["nextScheduleTime"];
        next.as_str().map(str::to_owned)
    });
    let next = carillon(&bench, &["next", "books", "-c", "2", "-o", "json"]).json();
    assert_eq!(next["runs"][0]["scheduled"], told);
    assert_eq!(next["runs"].as_array().unwrap().len(), 2);
    let delay = next["delaySeconds"].as_i64().unwrap();
    assert!((0..=3600).contains(&delay), "{next}");

    let manifest = cron(
        &bench,
        "other",
        &json!({}),
        &json!({"schedule": "30 2 * * *"}),
    );
    let args = [
        "next",
        "-",
        "--after",
        "2027-03-13",
        "-c",
        "2",
        "--zone",
        "Asia/Tokyo",
    ];
    let of_file = ask(&bench, &args, &manifest.to_string())
        .ended_with(0)
        .stdout;
    for part in [
        "Sat 2027-03-13 02:30 -05:00    Sat 2027-03-13 16:30 +09:00",
        "02:30 does not exist: no run",
        "Mon 2027-03-15 02:30 -04:00    Mon 2027-03-15 15:30 +09:00",
    ] {
        assert!(of_file.contains(part), "{of_file}");
    }
    let none = carillon(&bench, &["next", "cj/bocks"]).ended_with(1);
    assert!(
        none.stderr.contains("CronJob bocks of batch/v1 not found")
            && none.stderr.contains("books"),
        "{none:?}"
    );
}

#[test]
fn of_batch_a_run_is_made_by_the_command_that_is_told_and_suspension_works() {
    let bench = desk().bench("cli-native");
    bench.apply(&native(&bench, "books"));
    let refused = carillon(&bench, &["trigger", "books"]).ended_with(1);
    let command = refused
        .stderr
        .trim()
        .rsplit("Use: kubectl ")
        .next()
        .unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    bench.kubectl(&words);
    let jobs = bench.kubectl(&["get", "jobs", "-o", "name"]);
    assert!(jobs.starts_with("job.batch/books-"), "{jobs}");
    let suspended = carillon(&bench, &["suspend", "books"]).ended_with(0).stdout;
    assert_eq!(suspended, "cronjob.batch/books suspended\n");
    let spec = bench.kubectl(&[
        "get",
        "cronjobs.batch",
        "books",
        "-o",
        "jsonpath={.spec.suspend}",
    ]);
    assert_eq!(spec, "true");
    let resumed = carillon(&bench, &["resume", "books"]).ended_with(0).stdout;
    assert!(
        resumed.starts_with("cronjob.batch/books resumed\nThe next run is"),
        "{resumed}"
    );
}

#[test]
fn names_of_cron_jobs_are_completed() {
    let bench = desk().bench("cli-cron-names");
    bench.apply(&cron(&bench, "close-books", &json!({}), &json!({})));
    bench.apply(&native(&bench, "close-shop"));
    bench.apply(&bench.job("close-doors", &json!({}), &json!({"paused": true})));
    let complete = |verb: &str| {
        let words = ["__complete", verb, "-n", "cli-cron-names", "close"];
        carillon(&bench, &words).ended_with(0).stdout
    };
    for verb in ["next", "calendar", "trigger", "suspend"] {
        assert_eq!(complete(verb), "close-books\nclose-shop\n:4\n", "{verb}");
    }
    assert_eq!(
        complete("resume"),
        "close-doors\nclose-books\nclose-shop\n:4\n"
    );
}
