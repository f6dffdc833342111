//! `get` of several objects and kinds, and as they change.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use carillon_tests::lab::Bench;
use serde_json::{Value, json};

use super::cron_jobs::cron;
use super::desk::{carillon, command, desk};

fn labelled(mut object: Value, team: &str) -> Value {
    object["metadata"]["labels"] = json!({"team": team});
    object
}

#[test]
fn several_names_and_kinds_are_shown_and_labels_choose_among_them() {
    let bench = desk().bench("cli-several");
    let job = |name: &str, team: &str| {
        labelled(bench.job(name, &json!({}), &json!({"paused": true})), team)
    };
    bench.apply(&job("a", "storage"));
    bench.apply(&job("b", "web"));
    bench.apply(&labelled(
        cron(&bench, "report", &json!({}), &json!({})),
        "storage",
    ));
    let names = |args: &[&str], code: i32| {
        let args = [&["get", "-o", "name"], args].concat();
        let answer = carillon(&bench, &args).ended_with(code);
        (answer.stdout, answer.stderr)
    };
    let (a, b) = (
        "broadcastjob.carillon.dev/a\n",
        "broadcastjob.carillon.dev/b\n",
    );
    let report = "cronjob.carillon.dev/report\n";
    for (args, expected) in [
        (&["a", "b"][..], format!("{a}{b}")),
        (&["cbj", "b", "a"], format!("{b}{a}")),
        (&["report", "cbj/a", "a"], format!("{a}{report}")),
        (&[], format!("{a}{b}{report}")),
        (&["ccj,cbj"], format!("{a}{b}{report}")),
        (&["-l", "team=storage"], format!("{a}{report}")),
        (&["cbj", "-l", "team in (web)"], b.to_owned()),
        (&["-l", "team=nobody"], String::new()),
    ] {
        assert_eq!(names(args, 0).0, expected, "{args:?}");
    }
    // What is there is shown, also if something else is not.
    let (shown, said) = names(&["a", "none"], 1);
    assert_eq!(shown, a);
    assert!(said.contains("BroadcastJob none not found"), "{said}");
    let (_, said) = names(&["-l", "team in"], 1);
    assert!(said.contains("error: "), "{said}");
    let (_, said) = names(&["a", "-l", "team=web"], 1);
    assert!(said.contains("leave out the names"), "{said}");

    let table = carillon(&bench, &["get"]).ended_with(0).stdout;
    assert!(
        table.contains("\ncbj/a ") && table.contains("\nccj/report "),
        "{table}"
    );
    let one = carillon(&bench, &["get", "report", "-o", "json"]).json();
    assert_eq!(
        (&one["kind"], &one["name"]),
        (&json!("CronJob"), &json!("report"))
    );
}

#[test]
fn a_cron_job_is_shown_with_its_last_run_and_the_next_one() {
    let bench = desk().bench("cli-get-cron");
    bench.apply(&cron(&bench, "good", &json!({}), &json!({})));
    let fails = json!({"*": {"exit-code": 3}});
    bench.apply(&cron(&bench, "bad", &fails, &json!({"suspend": true})));
    let mut native = cron(&bench, "native", &json!({}), &json!({}));
    native["apiVersion"] = json!("batch/v1");
    bench.apply(&native);
    let wait = |name: &str, code: i32| {
        let args = ["trigger", name, "--wait", "--timeout", "2m"];
        drop(carillon(&bench, &args).ended_with(code));
    };
    wait("good", 0);
    wait("bad", 3);
    bench.until("both runs are accounted for", || {
        let crons = carillon(&bench, &["get", "ccj", "-o", "json"]).json();
        let mut crons = crons["items"].as_array().unwrap().iter();
        crons.all(|cron| cron["active"] == 0).then_some(())
    });
    let rows = |args: &[&str]| -> Vec<Vec<String>> {
        let table = carillon(&bench, args).ended_with(0).stdout;
        let cells = |line: &str| {
            line.split("   ")
                .map(str::trim)
                .map(str::to_owned)
                .collect()
        };
        let row = |line: &str| -> Vec<String> {
            let cells: Vec<String> = cells(line);
            cells.into_iter().filter(|cell| !cell.is_empty()).collect()
        };
        table.lines().map(row).collect()
    };
    let shown = rows(&["get", "ccj"]);
    assert_eq!(
        shown[0],
        [
            "NAME",
            "SCHEDULE",
            "TIME-ZONE",
            "SUSPENDED",
            "ACTIVE",
            "MISSED",
            "LAST-RUN",
            "NEXT-RUN",
            "AGE"
        ]
    );
    assert_eq!(
        shown[1][..6],
        ["bad", "30 1 1 1 *", "America/New_York", "yes", "0", "0"]
    );
    assert!(shown[1][6].starts_with("Failed "), "{shown:?}");
    assert_eq!(shown[1][7], "-");
    assert_eq!(
        shown[2][..4],
        ["good", "30 1 1 1 *", "America/New_York", "no"]
    );
    assert!(shown[2][6].starts_with("Succeeded "), "{shown:?}");
    assert!(shown[2][7].starts_with("in "), "{shown:?}");
    let shown = rows(&["get", "cj", "--no-headers"]);
    assert_eq!(
        shown[0][..6],
        ["native", "30 1 1 1 *", "America/New_York", "no", "0", "-"]
    );
    let wide = carillon(&bench, &["get", "ccj/good", "-o", "wide"])
        .ended_with(0)
        .stdout;
    assert!(wide.contains("job.batch/good-"), "{wide}");
}

/// A job named `slow` that runs, and what is said of it.
fn watch_of_a_slow_job(bench: &Bench<'_>, args: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let slow = json!({"*": {"run-time": "10m"}});
    bench.apply(&bench.job("slow", &slow, &json!({"parallelism": 1})));
    bench.until("it runs", || {
        (bench.get("slow")["status"]["active"] == 1).then_some(())
    });
    let mut watch = command(bench.cluster, bench.name);
    watch
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    (watch, lines)
}

#[test]
fn a_row_is_printed_whenever_one_changes_until_nobody_reads_it() {
    let bench = desk().bench("cli-watch");
    let (mut watch, mut lines) = watch_of_a_slow_job(&bench, &["get", "cbj", "-w"]);
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("NAME "));
    let first = next();
    assert!(
        first.starts_with("slow ") && first.contains("Running"),
        "{first}"
    );
    carillon(&bench, &["pause", "slow"]).ended_with(0);
    // The change of the spec may be seen before that of the status.
    let paused =
        std::iter::repeat_with(&mut next).find(|row| row.contains("Paused: spec.paused is true"));
    assert!(paused.is_some_and(|row| row.starts_with("slow ")));
    drop(lines);
    carillon(&bench, &["resume", "slow"]).ended_with(0);
    bench.until("it ends when nobody reads it", || {
        let ended = watch.try_wait().unwrap()?;
        assert!(ended.success(), "{ended}");
        Some(())
    });
}

#[test]
fn what_is_watched_is_listed_again_only_when_it_has_changed() {
    const QUIET: Duration = Duration::from_secs(5);
    let bench = desk().bench("cli-watch-quiet");
    let (mut watch, mut lines) = watch_of_a_slow_job(&bench, &["get", "-w"]);
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("NAME "));
    assert!(next().starts_with("slow "));
    // The operator lists all namespaces: what is asked of this one, the watch asks.
    let asked = |verb: &str| {
        let events = bench.cluster.audit_events().unwrap().into_iter();
        let here = events.filter(|one| one.verb == verb && one.namespace == bench.name);
        let whole = here
            .filter(|one| !one.request_uri.contains("limit=1&") && one.resource == "broadcastjobs");
        whole.count()
    };
    bench.until("it watches", || (asked("watch") > 0).then_some(()));
    // It used to list five times in this while.
    let calm = bench.until("it lists no more", || {
        let (before, begun) = (asked("list"), Instant::now());
        while begun.elapsed() < QUIET {
            std::thread::sleep(Duration::from_millis(100));
        }
        (asked("list") == before).then_some(before)
    });
    assert!(calm <= 6, "{calm} lists for a job that does not change");
    carillon(&bench, &["pause", "slow"]).ended_with(0);
    let paused =
        std::iter::repeat_with(&mut next).find(|row| row.contains("Paused: spec.paused is true"));
    assert!(paused.is_some_and(|row| row.starts_with("slow ")));
    assert!(asked("list") > calm, "a change is read");
    watch.kill().unwrap();
    watch.wait().unwrap();
}
