//! A cluster of eight nodes for the command line, so that what it prints does not depend on other
//! tests: node-0006 is tainted, node-0007 cordoned, and nobody changes that.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use carillon_testbed::carillon::{Profile, Program, build};
use carillon_testbed::{Cluster, Operator, Options};
use carillon_tests::lab::{self, Bench};
use serde_json::{Value, json};

pub(super) struct Desk {
    pub(super) cluster: Cluster,
    pub(super) operator: Operator,
}

pub(super) fn desk() -> &'static Desk {
    static DESK: OnceLock<Desk> = OnceLock::new();
    DESK.get_or_init(|| {
        let cluster = lab::cluster("cli", 8);
        for change in [
            [
                "taint",
                "node",
                "node-0006",
                "example.com/pool=gpu:NoSchedule",
            ]
            .as_slice(),
            &["cordon", "node-0007"],
        ] {
            cluster.kubectl_ok(change).unwrap();
        }
        let operator = Operator::start(&cluster, &Options::new("operator")).unwrap();
        Desk { cluster, operator }
    })
}

impl Desk {
    /// A namespace for one test.
    pub(super) fn bench(&'static self, name: &'static str) -> Bench<'static> {
        self.cluster
            .kubectl_ok(["create", "namespace", name])
            .unwrap();
        Bench {
            cluster: &self.cluster,
            name,
            nodes: (0..8).map(|n| format!("node-{n:04}")).collect(),
            node_selector: json!({}),
        }
    }
}

/// Fails on two nodes for the same reason, and on a third one for another.
pub(super) fn three_failures() -> Value {
    let full = json!({"exit-code": 3, "message": "no space left on device"});
    json!({"node-0001": full, "node-0003": full, "node-0004": {"exit-code": 1}})
}

/// What the program answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Answer {
    /// Its output, asked for with `-o json`.
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Panics unless it ended with this code.
    #[track_caller]
    pub(super) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// The program, on a cluster and in a namespace of it, without colours by itself.
pub(super) fn command(cluster: &Cluster, namespace: &str) -> Command {
    let mut command = Command::new(build(Program::Cli, Profile::Dev).unwrap());
    command
        .env("KUBECONFIG", cluster.kubeconfig())
        .env_remove("NO_COLOR")
        .args(["-n", namespace]);
    command
}

/// Runs it, with `input` for `-f -`.
pub(super) fn ask(bench: &Bench<'_>, args: &[&str], input: &str) -> Answer {
    let mut command = command(bench.cluster, bench.name);
    command.args(args);
    finish(command, input)
}

/// Runs `kubectl carillon …`.
pub(super) fn carillon(bench: &Bench<'_>, args: &[&str]) -> Answer {
    ask(bench, args, "")
}

/// Runs a command to its end.
pub(super) fn finish(mut command: Command, input: &str) -> Answer {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Should it end before it has read all, its own message says more than a broken pipe.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Answer {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
