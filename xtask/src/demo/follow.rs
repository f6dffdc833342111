//! From the first pod to the last: shows progress, resumes what a failure has paused, and lets a
//! node join at the end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use carillon_testbed::{Cluster, process};
use serde_json::Value;

use super::NAME;
use super::jobs::Jobs;
use super::progress::Progress;
use super::scenario::Outcome;
use crate::interrupt::Interrupt;

const EVERY: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_mins(5);
/// What the node that joins has, before its absence is a result.
const JOIN_LIMIT: Duration = Duration::from_mins(1);

/// Follows the jobs until each has ended, well or not, and those that never end have served the
/// node that joined. Gives what became of them.
pub(super) fn follow(
    cluster: &Cluster,
    expected: &BTreeMap<String, Outcome>,
    resumable: &[&str],
    interrupt: &Interrupt,
) -> Result<BTreeMap<String, Value>> {
    let mut jobs = Jobs::watch(cluster, NAME)?;
    let mut progress = Progress::new();
    let mut to_resume = resumable.to_vec();
    let mut joined: Option<Instant> = None;
    let start = Instant::now();
    loop {
        interrupt.check()?;
        for name in jobs.changed(EVERY)? {
            progress.update(&name, &jobs.latest[&name]);
        }
        progress.draw();
        if let Some(at) = to_resume
            .iter()
            .position(|name| phase(&jobs, name) == "paused")
        {
            resume(cluster, to_resume.remove(at), &mut progress)?;
        }
        let ended = |name: &str| ["completed", "failed"].contains(&phase(&jobs, name));
        let endless = |outcome: &Outcome| outcome.phase == "running";
        let as_expected = |name: &str, outcome: &Outcome| {
            jobs.latest
                .get(name)
                .is_some_and(|job| Outcome::of(job) == *outcome)
        };
        let (open, others): (Vec<_>, Vec<_>) =
            expected.iter().partition(|(_, outcome)| endless(outcome));
        if joined.is_none() && others.iter().all(|(name, _)| ended(name)) {
            join(cluster, &mut progress)?;
            joined = Some(Instant::now());
        }
        let served = open
            .iter()
            .all(|(name, outcome)| as_expected(name, outcome));
        if joined.is_some_and(|when| served || when.elapsed() > JOIN_LIMIT) {
            progress.finish();
            return Ok(std::mem::take(&mut jobs.latest));
        }
        if start.elapsed() > LIMIT {
            progress.finish();
            bail!(
                "the jobs have not ended after {}s\n{}",
                LIMIT.as_secs(),
                last_words(cluster)
            );
        }
    }
}

fn phase<'a>(jobs: &'a Jobs, name: &str) -> &'a str {
    let job = jobs.latest.get(name);
    job.and_then(|job| job["status"]["phase"].as_str())
        .unwrap_or_default()
}

fn resume(cluster: &Cluster, name: &str, progress: &mut Progress) -> Result<()> {
    let annotation = "carillon.dev/resume=1";
    progress.note(&format!(
        "{name}: paused by a failed node; kubectl annotate cbj {name} {annotation}"
    ));
    cluster
        .kubectl_ok(["annotate", "cbj", name, "-n", NAME, annotation])
        .map(drop)
}

fn join(cluster: &Cluster, progress: &mut Progress) -> Result<()> {
    progress.note("a node joins: the job that never ends serves it, too");
    let nodes = cluster.add_nodes(1, &[], &[])?;
    progress.note(&format!("{} has joined", nodes.join(", ")));
    Ok(())
}

/// The ends of the operators' logs.
fn last_words(cluster: &Cluster) -> String {
    let tail = |log| format!("{log}:\n{}\n", process::tail(&cluster.dir().join(log), 10));
    ["carillon-1.log", "carillon-2.log"].map(tail).concat()
}
