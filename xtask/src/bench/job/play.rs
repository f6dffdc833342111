//! Tells some pods to fail while the Job runs. What happens is read from the audit log, which costs
//! the API server nothing that it would not do anyway.

use std::thread::sleep;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use carillon_testbed::{AuditEvent, Cluster, Fate};

use super::case::{Case, Mode, NAME, NAMESPACE, ONE_FAILS_OF};
use crate::bench::api_writes::{self, Mark};

const EVERY: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_mins(20);
/// Which of each [`ONE_FAILS_OF`]: neither the first of all nor the last.
const THE_ONE: usize = ONE_FAILS_OF / 2;

/// Waits until the Job is Complete; meanwhile the pods that are to fail are told so.
pub(super) fn until_complete(cluster: &Cluster, mut mark: Mark, case: &Case) -> Result<()> {
    let mut unlucky = Unlucky::of(case);
    let limit = SystemTime::now() + LIMIT;
    let wanted = |line: &str| {
        line.contains("\"subresource\":\"binding\"") || line.contains("\"resource\":\"jobs\"")
    };
    loop {
        let events = api_writes::new(cluster, &mut mark, wanted)?;
        let here = || events.iter().filter(|event| event.namespace == NAMESPACE);
        let bound = here().filter(|event| event.subresource == "binding");
        let pods: Vec<&str> = bound
            .map(|event| event.name.as_str())
            .filter(|pod| unlucky.is(pod))
            .collect();
        if !pods.is_empty() {
            fail(cluster, &pods)?;
        }
        let says = |condition| {
            let body = |event: &AuditEvent| event.request_object.clone();
            let mut bodies = here().filter_map(body);
            bodies.any(|body| api_writes::has_condition(&body, condition))
        };
        if says("Complete") {
            return Ok(());
        }
        if says("Failed") || SystemTime::now() > limit {
            bail!("the Job has failed, or is not Complete within {LIMIT:?}");
        }
        sleep(EVERY);
    }
}

fn fail(cluster: &Cluster, pods: &[&str]) -> Result<()> {
    let fate = Fate::default().with("exit-code", 1).annotations();
    let fate = fate
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let fate: Vec<String> = fate.collect();
    let told = ["annotate", "pods", "--namespace", NAMESPACE];
    let told = told.into_iter().chain(pods.iter().copied());
    cluster.kubectl_ok(told.chain(fate.iter().map(String::as_str)))?;
    Ok(())
}

/// Which pods are to fail, asked once for each in the order in which they got a node.
struct Unlucky {
    mode: Mode,
    left: usize,
    asked: usize,
    /// Indexes that have failed: a second run succeeds.
    indexes: Vec<usize>,
}

impl Unlucky {
    fn of(case: &Case) -> Self {
        Self {
            mode: case.mode,
            left: case.failures(),
            asked: 0,
            indexes: Vec::new(),
        }
    }

    fn is(&mut self, pod: &str) -> bool {
        self.asked += 1;
        let is = match self.mode {
            Mode::NonIndexed => self.asked % ONE_FAILS_OF == THE_ONE,
            Mode::Indexed => index_of(pod).is_some_and(|index| {
                let first = !self.indexes.contains(&index);
                self.indexes.push(index);
                first && index % ONE_FAILS_OF == THE_ONE
            }),
        };
        let is = is && self.left > 0;
        self.left -= usize::from(is);
        is
    }
}

/// Of `bench-7-x5gd2` the 7.
fn index_of(pod: &str) -> Option<usize> {
    let index = pod.strip_prefix(NAME)?.strip_prefix('-')?;
    index.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pods_fail_as_are_meant_to_and_an_index_only_once() {
        let case = |mode| Case {
            completions: 100,
            parallelism: 100,
            mode,
        };
        let mut unlucky = Unlucky::of(&case(Mode::NonIndexed));
        let of_any = (0..500).filter(|_| unlucky.is("bench-x5gd2")).count();
        let mut unlucky = Unlucky::of(&case(Mode::Indexed));
        let pods = [25, 26, 25, 75, 75, 99].map(|index| format!("bench-{index}-x5gd2"));
        let of_index = pods.map(|pod| unlucky.is(&pod));
        assert_eq!(of_any, 2);
        assert_eq!(of_index, [true, false, false, true, false, false]);
    }
}
