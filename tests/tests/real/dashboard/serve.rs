//! A dashboard that is served for a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use carillon_testbed::Cluster;
use carillon_testbed::carillon::{Profile, Program, build};
use carillon_tests::lab::Bench;
use serde_json::{Value, json};

/// The program, which ends with this value.
pub(super) struct Served {
    child: Child,
    pub(super) url: String,
    pub(super) port: u16,
    /// With the token, from slash to slash.
    pub(super) path: String,
}

impl Served {
    /// As who may do everything.
    pub(super) fn start(cluster: &Cluster, args: &[&str]) -> Self {
        Self::of_user(&cluster.kubeconfig(), args)
    }

    /// As the user of a kubeconfig.
    pub(super) fn of_user(kubeconfig: &Path, args: &[&str]) -> Self {
        let program = build(Program::Cli, Profile::Dev).unwrap();
        let mut child = Command::new(program)
            .env("KUBECONFIG", kubeconfig)
            .arg("dashboard")
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let rest = url
            .strip_prefix("http://127.0.0.1:")
            .expect("an address on loopback");
        let (port, path) = rest.split_once('/').unwrap();
        Self {
            port: port.parse().unwrap(),
            path: format!("/{path}"),
            child,
            url,
        }
    }

    /// What is answered to a request with these headers, head and body.
    pub(super) fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let headers = headers
            .iter()
            .fold(String::new(), |mut all, (name, value)| {
                all += name;
                all += ": ";
                all += value;
                all + "\r\n"
            });
        let length = body.len();
        write!(
            stream,
            "{method} {}{path} HTTP/1.1\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}",
            self.path
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Presses a button of a BroadcastJob's page.
pub(super) fn post(served: &Served, job: &Value, verb: &str) -> String {
    let meta = &job["metadata"];
    let body = json!({
        "verb": verb, "resource": "broadcastjobs.carillon.dev", "namespace": meta["namespace"],
        "name": meta["name"], "uid": meta["uid"], "generation": meta["generation"],
    });
    let host = format!("127.0.0.1:{}", served.port);
    let origin = format!("http://{host}");
    let headers = [
        ("host", &*host),
        ("origin", &*origin),
        ("content-type", "application/json"),
    ];
    served.raw("POST", "api/act", &headers, &body.to_string())
}

/// The kubeconfig of somebody who may look at BroadcastJobs of the namespace and do nothing.
pub(crate) fn viewer(bench: &Bench<'_>) -> PathBuf {
    let resources = "--resource=broadcastjobs.carillon.dev,noderesultslices.carillon.dev";
    let account = format!("--serviceaccount={}:viewer", bench.name);
    for args in [
        ["create", "serviceaccount", "viewer"].as_slice(),
        &[
            "create",
            "role",
            "viewer",
            "--verb=get,list,watch",
            resources,
        ],
        &["create", "rolebinding", "viewer", "--role=viewer", &account],
    ] {
        bench.kubectl(args);
    }
    let token = bench.kubectl(&["create", "token", "viewer"]);
    bench
        .cluster
        .kubeconfig_for_token(token.trim(), bench.name)
        .unwrap()
}
