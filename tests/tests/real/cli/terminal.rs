//! What is printed on a terminal: rows that fit, and a bar that is drawn in place.

use std::io::Read;
use std::process::Command;

use serde_json::json;

use super::desk::{carillon, command, desk};
use super::pty;

/// Runs a command on a terminal of so many columns; what it has printed there.
fn on_terminal(mut command: Command, columns: u16) -> String {
    let (mut master, terminal) = pty::open(24, columns);
    command
        .stdout(terminal.try_clone().unwrap())
        .stderr(terminal);
    let mut child = command.spawn().unwrap();
    // Its end of the terminal is closed with it.
    drop(command);
    let mut printed = Vec::new();
    let mut part = [0; 4096];
    // When nobody has the other end any more, reading is an error.
    while let Ok(length @ 1..) = master.read(&mut part) {
        printed.extend_from_slice(&part[..length]);
    }
    child.wait().unwrap();
    String::from_utf8(printed).unwrap()
}

#[test]
fn rows_fit_the_terminal_and_in_a_pipe_nothing_is_cut() {
    let bench = desk().bench("cli-width");
    let message = "no space left on device ".repeat(10).trim_end().to_owned();
    let full = json!({"node-0001": {"exit-code": 3, "message": message}});
    let go_on = json!({"failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &full, &go_on));
    bench.wait("fix", "Complete");
    let results = |format: &[&str]| {
        let mut command = command(bench.cluster, bench.name);
        command
            .args(["results", "fix", "--color", "never"])
            .args(format);
        command
    };
    let narrow = on_terminal(results(&[]), 80);
    let longest = narrow
        .lines()
        .map(|line| line.trim_end().chars().count())
        .max();
    assert_eq!(longest, Some(80), "{narrow}");
    assert!(narrow.contains("…   node-0001"), "{narrow}");
    let wide = on_terminal(results(&["-o", "wide"]), 80);
    assert!(wide.contains(&message), "{wide}");
    let piped = carillon(&bench, &["results", "fix"]).ended_with(0).stdout;
    assert!(piped.contains(&message), "{piped}");
}

#[test]
fn wait_draws_a_bar_in_place_and_leaves_only_the_last_line() {
    let bench = desk().bench("cli-bar");
    let slow = json!({"*": {"run-time": "2s"}});
    bench.apply(&bench.job("fix", &slow, &json!({"parallelism": 3})));
    let mut wait = command(bench.cluster, bench.name);
    wait.args(["wait", "fix", "--timeout", "2m"]);
    let printed = on_terminal(wait, 100);
    let (bars, last) = printed.rsplit_once("\r\u{1b}[K").unwrap();
    assert_eq!(last, "fix: 6/6 Complete\r\n");
    assert!(bars.contains(">>>"), "{bars:?}");
    assert!(!bars.contains('\n'), "{bars:?}");
}
