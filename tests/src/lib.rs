//! What the tests against a real API server share: a cluster for manifests ([`shared_cluster`]), and
//! one with an operator for behaviours ([`lab`]).

#![allow(clippy::missing_panics_doc)] // a panic is how a test fails

pub mod admission;
pub mod api;
pub mod documented;
pub mod lab;
pub mod proof;

use std::io::Write;
use std::process::Stdio;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use carillon_testbed::carillon::apply_crds;
use carillon_testbed::{Cluster, Config};
use serde_json::Value;

/// The cluster of this test binary, with our CRDs, started by whoever asks first.
pub fn shared_cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::start(Config::new("tests")).expect("a cluster");
        apply_crds(&cluster).expect("our CRDs");
        cluster
    })
}

/// What kubectl answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whether it ended with status 0.
    pub ok: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Answer {
    /// Both outputs.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Panics with what it said unless it succeeded.
    #[track_caller]
    #[allow(clippy::return_self_not_must_use)] // often an end in itself
    pub fn succeeded(self) -> Self {
        assert!(self.ok, "kubectl failed: {}", self.text());
        self
    }

    /// Its output, asked for with `-o json`.
    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.succeeded().stdout).expect("kubectl prints JSON")
    }
}

/// Runs kubectl on the shared cluster, with `input` for `-f -`.
pub fn kubectl(args: &[&str], input: Option<&str>) -> Answer {
    let mut command = shared_cluster().kubectl_command();
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl starts");
    // Should it end before it has read all, its own message says more than a broken pipe.
    let _ = child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.unwrap_or_default().as_bytes());
    let output = child.wait_with_output().expect("kubectl ends");
    Answer {
        ok: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A namespace for one test.
pub fn namespace(name: &str) -> String {
    kubectl(&["create", "namespace", name], None).succeeded();
    name.to_owned()
}

/// Waits until `condition` holds; panics after a minute.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_mins(1),
            "not within a minute: {what}"
        );
        sleep(Duration::from_millis(200));
    }
}
