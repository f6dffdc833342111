//! `top`, on a terminal of its own and without one.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use carillon_tests::lab::Bench;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::desk::{carillon, command, desk, three_failures};
use super::pty;

const ROWS: NonZeroU16 = NonZeroU16::new(30).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(110).unwrap();

/// A program on a terminal.
struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
    /// All that was printed.
    printed: Arc<Mutex<Vec<u8>>>,
    /// Another end of it, so that what it shows can be read when the program has ended.
    _open: File,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let (keys, terminal) = pty::open(ROWS.get(), COLUMNS.get());
        let end = || terminal.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        command.env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
        let child = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (mut output, shown) = (keys.try_clone().unwrap(), screen.clone());
        let all = printed.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut part) {
                all.lock().unwrap().extend_from_slice(&part[..length]);
                shown.lock().unwrap().process(&part[..length]);
            }
        });
        Self {
            child,
            keys,
            screen,
            printed,
            _open: terminal,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until all of these are shown.
    #[track_caller]
    fn shows(&self, bench: &Bench<'_>, parts: &[&str]) -> String {
        let what = format!("the terminal shows {parts:?}");
        bench.until(&what, || {
            let text = self.text();
            let all = parts.iter().all(|part| text.contains(part));
            all.then_some(text)
        })
    }

    /// Waits until it has ended, and gives its exit code.
    fn ended(mut self, bench: &Bench<'_>) -> Option<i32> {
        bench.until("it has left the screen that it had for itself", || {
            let screen = self.screen.lock().unwrap();
            (!screen.screen().alternate_screen()).then_some(())
        });
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn top(bench: &Bench<'_>, args: &[&str]) -> Terminal {
    let mut command = command(bench.cluster, bench.name);
    command.arg("top").args(args);
    Terminal::start(command)
}

const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";

#[test]
fn each_node_is_a_square_and_the_cursor_says_what_decides_it() {
    let bench = desk().bench("cli-top");
    let go_on = json!({"failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &three_failures(), &go_on));
    bench.wait("fix", "Complete");
    let mut top = top(&bench, &["fix"]);
    let shown = top.shows(
        &bench,
        &[
            "BroadcastJob cli-top/fix  Complete: 3 nodes failed",
            "8 nodes: 3 done, 0 active, 3 failed, 0 waiting, 2 left out",
            "2× Failed: exit 3",
            "■ ✖ ■ ✖ ✖ ■ ○ ○",
            "node-0000  Succeeded",
        ],
    );
    assert!(shown.contains("? help"), "{shown}");
    top.press("n");
    top.shows(&bench, &["node-0001  Failed", "no space left on device"]);
    top.press("n");
    top.shows(&bench, &["node-0003  Failed"]);
    top.press(ENTER);
    top.shows(
        &bench,
        &[
            "node-0003 in fix: Failed (NonZeroExitCode)",
            "taints         pass     no taint",
            "To run it here: kubectl carillon -n cli-top retry fix --node",
        ],
    );
    top.press(ESCAPE);
    top.shows(&bench, &["■ ✖ ■ ✖ ✖ ■ ○ ○"]);
    top.press("/0006\r");
    top.shows(&bench, &["node-0006  Refused  NodeTaintNotTolerated"]);
    top.press("q");
    assert_eq!(top.ended(&bench), Some(0));
}

#[test]
fn what_changes_is_seen_without_a_key_and_the_terminal_is_left_as_it_was() {
    let bench = desk().bench("cli-top-live");
    let paused = json!({"paused": true});
    let hostile =
        json!({"node-0002": {"exit-code": 1, "message": "\u{1b}[2J\u{1b}]0;owned\u{7}bad"}});
    bench.apply(&bench.job("fix", &hostile, &paused));
    let terminal = top(&bench, &[]);
    terminal.shows(
        &bench,
        &[
            "namespace cli-top-live",
            "BroadcastJob cli-top-live/fix",
            "Paused",
        ],
    );
    drop(terminal);
    let mut terminal = top(&bench, &["cbj/fix", "--group-by", "kubernetes.io/os"]);
    terminal.shows(&bench, &["6 waiting", "linux  0 of 8"]);
    carillon(&bench, &["resume", "fix"]).ended_with(0);
    terminal.shows(&bench, &["1 failed", "linux  5 of 8, 1 failed"]);
    terminal.press("n");
    let shown = terminal.shows(&bench, &["node-0002  Failed"]);
    assert!(shown.contains("BroadcastJob cli-top-live/fix"), "{shown}");
    let printed = String::from_utf8_lossy(&terminal.printed.lock().unwrap()).into_owned();
    assert!(
        !printed.contains("\u{1b}]0;"),
        "the title of the window was changed"
    );
    drop(terminal);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let terminal = top(&bench, &["cbj/fix"]);
        terminal.shows(&bench, &["BroadcastJob cli-top-live/fix"]);
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        assert_eq!(terminal.ended(&bench), Some(0), "{signal:?}");
    }
}

#[test]
fn a_simulated_run_is_played_until_somebody_quits_and_its_tables_follow() {
    let bench = desk().bench("cli-film");
    let start = || {
        let mut command = command(bench.cluster, bench.name);
        let job = "../examples/broadcastjob-retries-and-budget.yaml";
        command.args(["simulate", "-f", job, "--nodes", "40", "--fail", "5%"]);
        command.args(["--grid", "--speed", "100000"]);
        Terminal::start(command)
    };
    let mut film = start();
    film.shows(
        &bench,
        &["Failed: FailFast: node node-04", "40 nodes: 37 done"],
    );
    film.press("n\r");
    film.shows(&bench, &["Failed after"]);
    film.press("q");
    film.shows(&bench, &["MAX-FAILED-NODES"]);
    assert_eq!(film.ended(&bench), Some(2));
    let film = start();
    film.shows(&bench, &["Failed: FailFast"]);
    kill_process(Pid::from_child(&film.child), Signal::TERM).unwrap();
    film.shows(&bench, &["MAX-FAILED-NODES"]);
    assert_eq!(film.ended(&bench), Some(2));
}

#[test]
fn a_daemon_set_shows_what_it_waits_for() {
    let bench = desk().bench("cli-top-ds");
    let never =
        json!({"node-0000": {"fate": "never-starts", "waiting-reason": "ImagePullBackOff"}});
    bench.apply(&super::daemon_sets::set(
        &bench,
        "busybox:1.36",
        &never,
        &json!({}),
    ));
    let terminal = top(&bench, &["cds/agent"]);
    terminal.shows(
        &bench,
        &["6 done, 1 active", "▸ ■ ■ ■ ■ ■ ○ ■", "node-0000  Waiting"],
    );
}

#[test]
fn without_a_terminal_each_change_is_a_line_and_all_objects_are_one_each() {
    let bench = desk().bench("cli-top-lines");
    let go_on = json!({"parallelism": 1, "failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &three_failures(), &go_on));
    let told = carillon(&bench, &["top", "fix"]).ended_with(0).stdout;
    let last =
        "fix: Complete: 3 nodes failed; 8 nodes: 3 done, 0 active, 3 failed, 0 waiting, 2 left out";
    assert_eq!(told.lines().last(), Some(last), "{told}");
    let all = carillon(&bench, &["top"]).ended_with(0).stdout;
    assert_eq!(
        all,
        "BroadcastJob cli-top-lines/fix  3/8 Complete: 3 nodes failed\n"
    );
    let missing = carillon(&bench, &["top", "nope"]).ended_with(1);
    assert!(missing.stderr.contains("nope"), "{missing:?}");
}

#[test]
fn a_node_that_is_slow_is_named_and_a_pod_that_only_says_it_is_one_of_the_job_is_not() {
    let bench = desk().bench("cli-top-slow");
    let long = json!({"run-time": "10m"});
    let paused = json!({"paused": true});
    bench.apply(&bench.job("fix", &json!({"node-0005": long}), &paused));
    let uid = bench.kubectl(&["get", "cbj", "fix", "-o", "jsonpath={.metadata.uid}"]);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "counterfeit", "namespace": bench.name,
                     "labels": {"carillon.dev/broadcastjob-uid": uid.trim()},
                     "annotations": {"testbed.carillon.dev/fates": json!({"*": long}).to_string()}},
        "spec": {"nodeName": "node-0000", "containers": [{"name": "main", "image": "busybox"}]},
    });
    bench.apply(&pod);
    bench.until("it runs, and longer than the pods of the job will", || {
        let phase = [
            "get",
            "pod",
            "counterfeit",
            "-o",
            "jsonpath={.status.phase}",
        ];
        (bench.kubectl(&phase).trim() == "Running").then_some(())
    });
    carillon(&bench, &["resume", "fix"]).ended_with(0);
    let terminal = top(&bench, &["fix"]);
    let shown = terminal.shows(&bench, &["5 done, 1 active", "slow: node-0005 runs"]);
    assert!(!shown.contains("node-0000 runs"), "{shown}");
}
