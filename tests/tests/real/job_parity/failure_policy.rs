//! Rules about failed pods.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::here::index_of;
use super::scenario::{Scenario, all_pods, ends, fails, indexed, ready, runs, slow_to_stop};
use crate::parity::stage::PodDeed;

fn rules(rules: &Value) -> Value {
    json!({"podFailurePolicy": {"rules": rules}})
}

fn by_code(action: &str, operator: &str, codes: &[i32]) -> Value {
    json!({"action": action, "onExitCodes": {"operator": operator, "values": codes}})
}

fn by_condition(action: &str) -> Value {
    json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]})
}

fn limit(limit: u32) -> Value {
    json!({"backoffLimit": limit})
}

fn two_containers() -> Value {
    json!({"template": {"spec": {"containers": [
        {"name": "main", "image": "busybox:1.37"}, {"name": "side", "image": "busybox:1.37"}]}}})
}

fn with_init() -> Value {
    json!({"template": {"spec": {
        "initContainers": [{"name": "prepare", "image": "busybox:1.37"}]}}})
}

/// Its node has made room for others.
fn disrupted(pod: &Value) -> Value {
    let mut conditions = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions.push(json!({"type": "DisruptionTarget", "status": "True",
        "reason": "PreemptionByScheduler", "message": "makes room"}));
    json!({"phase": "Failed", "conditions": conditions})
}

/// An init container fails, so the others never run.
fn fails_to_prepare(_: &Value) -> Value {
    let end = json!({"exitCode": 42, "reason": "Error",
        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"});
    json!({"phase": "Failed", "initContainerStatuses": [{"name": "prepare", "ready": false,
        "restartCount": 0, "image": "busybox:1.37", "imageID": "", "state": {"terminated": end}}]})
}

/// `side` ends with 7 and `main` with 0.
fn side_fails(_: &Value) -> Value {
    let status = |name: &str, code: i32| {
        let end = json!({"exitCode": code, "reason": "Ended",
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"});
        json!({"name": name, "ready": false, "restartCount": 0, "image": "busybox:1.37",
            "imageID": "", "state": {"terminated": end}})
    };
    json!({"phase": "Failed", "containerStatuses": [status("main", 0), status("side", 7)]})
}

fn any(_: &Value) -> bool {
    true
}

/// Scenarios.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn all() -> Vec<Scenario> {
    let in_main = json!({"action": "FailJob", "onExitCodes":
        {"containerName": "main", "operator": "In", "values": [7]}});
    let in_side = json!({"action": "FailJob", "onExitCodes":
        {"containerName": "side", "operator": "In", "values": [7]}});
    let fail_job = rules(&json!([by_code("FailJob", "In", &[42])]));
    let ignore = rules(&json!([by_code("Ignore", "In", &[5])]));
    let fail_index = rules(&json!([by_code("FailIndex", "In", &[42])]));
    let both = rules(&json!([
        by_code("Ignore", "In", &[5]),
        by_code("FailJob", "In", &[5, 6])
    ]));
    let other_order = rules(&json!([
        by_code("FailJob", "In", &[5, 6]),
        by_code("Ignore", "In", &[5])
    ]));
    let each = |limit: u32| json!({"backoffLimitPerIndex": limit});
    let three = json!({"completions": 3, "parallelism": 3});
    let hangs = all_pods(&Fate::hangs());
    vec![
        Scenario::of(
            "fail-job-by-exit-code",
            &[fail_job.clone(), all_pods(&fails(42))],
        ),
        Scenario::of(
            "fail-job-by-other-exit-code",
            &[
                rules(&json!([by_code("FailJob", "NotIn", &[1, 2])])),
                all_pods(&fails(3)),
            ],
        ),
        Scenario::of(
            "fail-job-by-none-of-these",
            &[
                rules(&json!([by_code("FailJob", "NotIn", &[1, 2])])),
                limit(0),
                all_pods(&fails(2)),
            ],
        ),
        Scenario::of(
            "fail-job-and-the-others",
            &[fail_job.clone(), three.clone()],
        )
        .fates(&[fails(42), Fate::hangs()]),
        Scenario::of(
            "fail-job-and-wait-for-the-others",
            &[fail_job.clone(), three.clone(), slow_to_stop("4s")],
        )
        .fates(&[fails(42), Fate::hangs()]),
        Scenario::of("fail-job-after-a-failure", std::slice::from_ref(&fail_job))
            .fates(&[fails(1), fails(42)]),
        Scenario::of("fail-job-indexed", &[fail_job.clone(), indexed(3, 3)])
            .fates(&[Fate::hangs()])
            .index(0, &[ends()])
            .index(1, &[runs("4500ms").with("exit-code", 42)]),
        Scenario::of("ignore-by-exit-code", &[ignore.clone(), limit(0)]).fates(&[fails(5), ends()]),
        Scenario::of("ignore-then-count", &[ignore.clone(), limit(0)]).fates(&[fails(5), fails(6)]),
        Scenario::of(
            "count-by-exit-code",
            &[
                rules(&json!([by_code("Count", "In", &[5])])),
                limit(0),
                all_pods(&fails(5)),
            ],
        ),
        Scenario::of("the-first-rule-counts", &[both, limit(0)]).fates(&[fails(5), fails(6)]),
        Scenario::of(
            "the-first-rule-counts-here-too",
            &[other_order, all_pods(&fails(5))],
        ),
        Scenario::of("fail-index", &[fail_index.clone(), indexed(3, 3), each(1)])
            .fates(&[ends()])
            .index(1, &[fails(42)]),
        Scenario::of(
            "fail-index-or-try-again",
            &[fail_index, indexed(3, 3), each(1)],
        )
        .fates(&[ends()])
        .index(0, &[fails(42)])
        .index(1, &[fails(1), ends()]),
        Scenario::of("ignore-in-an-index", &[ignore, indexed(2, 2), each(0)])
            .fates(&[ends()])
            .index(1, &[fails(5), ends()]),
        Scenario::of(
            "fail-job-by-container",
            &[
                rules(&json!([in_main])),
                two_containers(),
                all_pods(&fails(7)),
            ],
        ),
        Scenario::of(
            "fail-job-by-a-container-that-did-not",
            &[
                rules(&json!([{"action": "FailJob", "onExitCodes":
                    {"containerName": "main", "operator": "In", "values": [7]}}])),
                two_containers(),
                limit(0),
                hangs.clone(),
            ],
        )
        .pod(ready, any, PodDeed::Status(side_fails)),
        Scenario::of(
            "fail-job-by-the-other-container",
            &[rules(&json!([in_side])), two_containers(), hangs.clone()],
        )
        .pod(ready, any, PodDeed::Status(side_fails)),
        Scenario::of(
            "fail-job-by-init-container",
            &[
                fail_job,
                with_init(),
                all_pods(&Fate::never_starts("PodInitializing")),
            ],
        )
        .pod(
            |here| here.count("active") == 1,
            any,
            PodDeed::Status(fails_to_prepare),
        ),
        Scenario::of(
            "ignore-a-disruption",
            &[rules(&json!([by_condition("Ignore")])), limit(0)],
        )
        .fates(&[Fate::hangs(), ends()])
        .pod(ready, any, PodDeed::Status(disrupted)),
        Scenario::of(
            "fail-job-by-a-disruption",
            &[rules(&json!([by_condition("FailJob")])), hangs.clone()],
        )
        .pod(ready, any, PodDeed::Status(disrupted)),
        Scenario::of(
            "fail-index-by-a-disruption",
            &[
                rules(&json!([by_condition("FailIndex")])),
                indexed(2, 2),
                each(2),
            ],
        )
        .fates(&[ends()])
        .index(1, &[Fate::hangs()])
        .pod(
            |here| here.count("succeeded") == 1,
            |pod| index_of(pod) == Some(1),
            PodDeed::Status(disrupted),
        ),
        Scenario::of(
            "deleted-under-rules",
            &[
                rules(&json!([by_condition("Ignore")])),
                limit(0),
                slow_to_stop("3s"),
            ],
        )
        .fates(&[Fate::hangs(), ends()])
        .pod(ready, any, PodDeed::Delete),
    ]
}
