//! When a pod that goes is replaced.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::here::index_of;
use super::scenario::{Scenario, ends, fails, indexed, ready, slow_to_stop};
use crate::parity::stage::PodDeed;

fn policy(policy: &str) -> Value {
    json!({"podReplacementPolicy": policy})
}

fn any(_: &Value) -> bool {
    true
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let slow = || slow_to_stop("5s");
    let hangs_first = [Fate::hangs(), ends()];
    let of = |name, specs: &[Value]| {
        Scenario::of(name, specs)
            .fates(&hangs_first)
            .pod(ready, any, PodDeed::Delete)
    };
    let two = json!({"completions": 2, "parallelism": 2});
    vec![
        of(
            "replaced-when-terminating",
            &[policy("TerminatingOrFailed"), slow()],
        ),
        of("replaced-when-failed", &[policy("Failed"), slow()]),
        of(
            "replaced-when-failed-at-limit-0",
            &[policy("Failed"), slow(), json!({"backoffLimit": 0})],
        ),
        of(
            "replaced-when-terminating-at-limit-0",
            &[
                policy("TerminatingOrFailed"),
                slow(),
                json!({"backoffLimit": 0}),
            ],
        ),
        Scenario::of(
            "replaced-when-failed-by-index",
            &[policy("Failed"), slow(), indexed(2, 2)],
        )
        .fates(&[ends()])
        .index(1, &hangs_first)
        .pod(
            |here| here.count("succeeded") == 1,
            |pod| index_of(pod) == Some(1),
            PodDeed::Delete,
        ),
        Scenario::of(
            "replaced-when-terminating-by-index",
            &[policy("TerminatingOrFailed"), slow(), indexed(2, 2)],
        )
        .fates(&[ends()])
        .index(1, &hangs_first)
        .pod(
            |here| here.count("succeeded") == 1,
            |pod| index_of(pod) == Some(1),
            PodDeed::Delete,
        ),
        of(
            "replaced-at-once-after-all",
            &[policy("Failed"), slow_to_stop("8s")],
        )
        .patch(
            |here| here.count("terminating") == 1,
            &policy("TerminatingOrFailed"),
        ),
        // A pod that succeeds while it is being deleted has succeeded.
        Scenario::of(
            "terminating-and-succeeds",
            &[
                policy("Failed"),
                slow(),
                json!({"template": {"metadata": {"annotations":
                    {"testbed.carillon.dev/termination-exit-code": "0"}}}}),
            ],
        )
        .fates(&[Fate::hangs()])
        .pod(ready, any, PodDeed::Delete),
        Scenario::of(
            "lowered-and-raised-when-failed",
            &[policy("Failed"), slow(), two.clone()],
        )
        .fates(&[Fate::hangs(), Fate::hangs(), ends()])
        .patch(|here| here.count("ready") == 2, &json!({"parallelism": 0}))
        .patch(
            |here| here.count("terminating") == 2,
            &json!({"parallelism": 2}),
        ),
        Scenario::of(
            "lowered-and-raised-when-terminating",
            &[policy("TerminatingOrFailed"), slow(), two],
        )
        .fates(&[Fate::hangs(), Fate::hangs(), ends()])
        .patch(|here| here.count("ready") == 2, &json!({"parallelism": 0}))
        .patch(
            |here| here.count("terminating") == 2,
            &json!({"parallelism": 2}),
        ),
        Scenario::of("fails-when-failed", &[policy("Failed")]).fates(&[fails(1), ends()]),
    ]
}
