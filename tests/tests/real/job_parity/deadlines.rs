//! How long a Job may run, and how long it is kept.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::scenario::{Scenario, all_pods, ends, fails, indexed, ready, slow_to_stop};
use crate::parity::watched::Here;

fn deadline(seconds: u32) -> Value {
    json!({"activeDeadlineSeconds": seconds})
}

fn kept(seconds: u32) -> Value {
    json!({"ttlSecondsAfterFinished": seconds})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let two = json!({"completions": 2, "parallelism": 2});
    let hangs = all_pods(&Fate::hangs());
    vec![
        Scenario::of("deadline", &[deadline(4), two.clone(), hangs.clone()]),
        Scenario::of("deadline-0", &[deadline(0), hangs.clone()]),
        Scenario::of("deadline-in-time", &[deadline(60)]),
        Scenario::of(
            "deadline-without-pods",
            &[deadline(3), json!({"parallelism": 0})],
        ),
        Scenario::of(
            "deadline-and-wait-for-the-others",
            &[deadline(4), two.clone(), slow_to_stop("4s")],
        )
        .fates(&[Fate::hangs()]),
        Scenario::of("deadline-after-a-success", &[deadline(5), indexed(3, 3)])
            .fates(&[Fate::hangs()])
            .index(1, &[ends()]),
        Scenario::of("deadline-in-back-off", &[deadline(6)]).fates(&[fails(1), ends()]),
        Scenario::of(
            "deadline-of-pods-that-never-start",
            &[
                deadline(4),
                all_pods(&Fate::never_starts("ImagePullBackOff")),
            ],
        ),
        Scenario::of("deadline-set-later", std::slice::from_ref(&hangs)).patch(ready, &deadline(5)),
        Scenario::of("deadline-put-off", &[deadline(600), hangs.clone()])
            .patch(ready, &deadline(4)),
        Scenario::of("kept-0", &[kept(0)]).until(Here::is_gone),
        Scenario::of("kept-4", &[kept(4)]).until(Here::is_gone),
        Scenario::of(
            "kept-2-after-a-failure",
            &[kept(2), json!({"backoffLimit": 0}), all_pods(&fails(1))],
        )
        .until(Here::is_gone),
        Scenario::of("kept-and-then-not", &[])
            .patch(|here| here.is("Complete"), &kept(0))
            .until(Here::is_gone),
        Scenario::of("kept-for-long", &[kept(3600)]),
        Scenario::of("kept-3-after-its-deadline", &[kept(3), deadline(3), hangs])
            .until(Here::is_gone),
    ]
}
