//! Random families: a BroadcastJob, and people who make retries of it, twice, too early, or knowing of each
//! other, and delete them again.

use carillon_sim::actors::Fate;
use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::random::{all_well, some_fail};
use super::subject;

use super::scenarios::retries::{delete, retry};
use crate::scenario::{Ends, SECOND, Same, Scenario, Step, View};

/// What somebody may do.
type Act = fn(&View<'_>);

/// All that somebody may do.
const ACTS: [Act; 12] = [
    make::<1, 0, 1>,
    make::<1, 0, 2>,
    make::<2, 0, 1>,
    make::<2, 1, 0>,
    make::<3, 0, 2>,
    make::<3, 2, 1>,
    make::<4, 2, 0>,
    remove::<1>,
    remove::<2>,
    remove::<3>,
    at_once,
    make_and_remove,
];

/// The scenario of a seed.
pub(super) fn scenario(name: &'static str, seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed ^ 0x6661_6d69_6c79);
    let fates: [fn(&str, usize) -> Fate; 4] = [all_well, some_fail, fails_twice, is_slow];
    let policy = ["FailFast", "Continue"][rng.usize(0..2)];
    let parallelism = rng.u32(1..=3);
    let mut spec = json!({"parallelism": parallelism, "failurePolicy": {"type": policy}});
    if rng.bool() {
        spec["executionPolicy"] = json!("AtMostOnce");
    }
    let mut script = Vec::new();
    for _ in 0..rng.usize(2..=7) {
        script.push(Step {
            // Some do not wait for its end.
            when: if rng.u32(0..5) == 0 {
                at_any_time
            } else {
                ends
            },
            after: SignedDuration::from_millis(rng.i64(0..20_000)),
            act: ACTS[rng.usize(0..ACTS.len())],
        });
    }
    Scenario {
        nodes: rng.usize(2..=4),
        spec,
        fates: fates[rng.usize(0..fates.len())],
        script,
        same: Same::Condition,
        ends: Ends::After(SignedDuration::from_mins(20)),
        ..subject::scenario(name)
    }
}

/// The job has ended, or is gone.
fn ends(view: &View<'_>) -> bool {
    view.job().is_none() || view.is("Complete") || view.is("Failed")
}

fn at_any_time(_: &View<'_>) -> bool {
    true
}

fn name(number: usize) -> String {
    format!("job-retry-{number}")
}

/// A retry of these nodes.
fn make<const NUMBER: usize, const KNOWN: usize, const NODES: usize>(view: &View<'_>) {
    let nodes = match NODES {
        0 => Value::Null,
        1 => json!(["node-1"]),
        _ => json!(["node-0", "node-1"]),
    };
    retry(view, &name(NUMBER), KNOWN, &nodes);
}

fn remove<const NUMBER: usize>(view: &View<'_>) {
    delete(view, &name(NUMBER));
}

fn at_once(view: &View<'_>) {
    make::<1, 0, 1>(view);
    make::<2, 0, 0>(view);
    make::<3, 0, 1>(view);
}

/// Under a name that is free again soon.
fn make_and_remove(view: &View<'_>) {
    remove::<2>(view);
    make::<2, 1, 1>(view);
    make::<4, 1, 2>(view);
}

fn fails_twice(node: &str, nth: usize) -> Fate {
    Fate::ends(3 * SECOND, i32::from(node.ends_with('1') && nth < 2))
}

/// Somebody has the time to delete its job.
fn is_slow(node: &str, nth: usize) -> Fate {
    let fails = node.ends_with('1') && nth == 0;
    Fate {
        obeys: if nth.is_multiple_of(2) { Some(0) } else { None },
        ..Fate::ends(15 * SECOND, i32::from(fails))
    }
}
