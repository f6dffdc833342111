//! What the process takes at its peak where tenants have written large objects.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod objects;
mod server;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use self::objects::Owner;
use self::server::Server;

/// What a pod of the operator may be given, and is in the sentence of `charts/carillon/values.yaml`.
const LIMIT: usize = 256 << 20;
const WITHIN: Duration = Duration::from_mins(5);

/// The process, ended with this value.
struct Carillon(Child);

impl Carillon {
    fn start(server: &Server) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_carillon"))
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .args(["--leader-elect=false", "--serve-native=jobs,cronjobs"])
            .args(["--http-address=127.0.0.1:0", "--debug-address="])
            .args(["--log-format=text", "--log-level=warn"])
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit())
            .spawn();
        Self(child.unwrap())
    }

    /// Its peak since it was started, in bytes.
    fn peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<usize>().unwrap() << 10
    }
}

impl Drop for Carillon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Peak of a process that has these objects to serve, once the server has seen enough of it.
fn peak(what: &str, server: &Server, enough: impl Fn(&Server) -> bool) -> usize {
    let begin = Instant::now();
    let mut carillon = Carillon::start(server);
    while !enough(server) {
        assert!(begin.elapsed() < WITHIN, "{what}: {server:?}");
        let ended = carillon.0.try_wait().unwrap();
        assert!(ended.is_none(), "{what}: ended with {ended:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let peak = carillon.peak();
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{what}: peak {} MiB after {seconds:.1} s, {server:?}",
        peak >> 20
    );
    peak
}

#[test]
fn three_hundred_jobs_of_a_megabyte_that_somebody_else_serves_fit_into_the_limit() {
    let server = Server::start(objects::jobs(300, Owner::SomebodyElse));
    let peak = peak("Jobs of somebody else", &server, |server| {
        server.watches("jobs")
    });
    assert!(peak <= LIMIT, "{} MiB", peak >> 20);
}

#[test]
fn three_hundred_jobs_of_a_megabyte_are_served_within_the_limit() {
    let server = Server::start(objects::jobs(300, Owner::Us));
    // More at a time than there are workers; the rest is more of the same.
    let peak = peak("Jobs", &server, |server| server.created("pods") >= 40);
    assert!(peak <= LIMIT, "{} MiB", peak >> 20);
}

#[test]
fn three_hundred_broadcast_jobs_or_cron_jobs_of_a_megabyte_fit_into_the_limit() {
    for objects in [objects::broadcast_jobs(300), objects::cron_jobs(150)] {
        let server = Server::start(objects);
        let plural = objects.plural;
        let peak = peak(plural, &server, |server| server.watches(plural));
        assert!(peak <= LIMIT, "{plural}: {} MiB", peak >> 20);
    }
}
