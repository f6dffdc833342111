//! A job and its retries: one of them has the turn, and no node is run again that has succeeded.

mod close;
mod deleted;
mod ends;

use std::collections::BTreeSet;

use carillon_api::NodeState;
use carillon_api::condition::{reasons, results, types};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::world::{Other, Others, World};
use crate::broadcast_job::action::{Action, Plan, SliceWrite, Step};
use crate::object_key::{BROADCAST_JOB, ObjectKey};
use crate::pod::PodPhase;

/// The first job and its retries, of which each sees the others as they are.
struct Relatives {
    /// The first job is the first.
    worlds: Vec<World>,
    /// Those that were deleted: their slices have stayed.
    gone: BTreeSet<usize>,
}

impl Relatives {
    /// A job on three nodes that has ended; it failed on these.
    fn of(failed: &[&str], more: Value) -> Self {
        let mut spec = json!({"failurePolicy": {"type": "Continue"}});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        let mut first = World::new(3, spec);
        first.owner = ObjectKey::of(BROADCAST_JOB, "ops", "fix", first.uid());
        first.start();
        for node in failed {
            first.end(node, 1);
        }
        first.run_to_the_end();
        assert!(first.is(types::COMPLETE));
        Self {
            worlds: vec![first],
            gone: BTreeSet::new(),
        }
    }

    /// A job on so many nodes, run side by side, that has failed on all of them; and their names.
    fn failed_on_all(count: usize) -> (Self, Vec<String>) {
        let spec = json!({"failurePolicy": {"type": "Continue"}, "parallelism": count});
        let mut first = World::new(count, spec);
        first.owner = ObjectKey::of(BROADCAST_JOB, "ops", "fix", first.uid());
        first.start();
        let names: Vec<String> = (0..count).map(|n| format!("n{n:04}")).collect();
        for name in &names {
            first.end(name, 1);
        }
        first.run_to_the_end();
        let family = Self {
            worlds: vec![first],
            gone: BTreeSet::new(),
        };
        (family, names)
    }

    /// A retry of these nodes, of which the maker knew so many before.
    fn retry(&mut self, nodes: &[&str], known: usize) -> usize {
        let first = &self.worlds[0];
        let number = self.worlds.len();
        let retry_of = json!({
            "name": "fix", "uid": first.owner.uid.to_string(), "knownRetries": known,
        });
        let more = json!({
            "retryOf": retry_of, "nodeNames": nodes, "failurePolicy": {"type": "Continue"},
        });
        let mut retry = World::new(0, more);
        retry.nodes = first.nodes.clone();
        retry.now = first.now;
        retry.serial = 1000 * number as u64;
        let uid = retry.uid();
        retry.owner = ObjectKey::of(BROADCAST_JOB, "ops", format!("fix-retry-{number}"), uid);
        self.worlds.push(retry);
        number
    }

    fn other(&self, at: usize) -> Other {
        let world = &self.worlds[at];
        Other {
            name: world.owner.name.clone(),
            uid: world.owner.uid,
            job: (!self.gone.contains(&at)).then(|| world.job()),
            slices: world.slices.clone(),
            pods: world.pods.clone(),
            taken: world.unowned.clone(),
            problem: None,
        }
    }

    /// What the `at`th sees.
    fn look(&mut self, at: usize) -> &mut World {
        let listed = self.worlds[0].job().status.retries;
        let mut others = Others {
            first: Some(self.other(0)),
            ..Others::default()
        };
        for retry in &listed {
            let place = self
                .worlds
                .iter()
                .position(|w| w.owner.uid.to_string() == retry.uid);
            others.retries.push(match place {
                Some(place) => self.other(place),
                None => Other {
                    name: retry.name.clone(),
                    uid: retry.uid.parse().unwrap(),
                    job: None,
                    slices: Vec::new(),
                    pods: crate::pod::Pods::default(),
                    taken: crate::broadcast_job::TakenPods::default(),
                    problem: None,
                },
            });
        }
        if at > 0 {
            self.worlds[at].others = Some(others);
        }
        &mut self.worlds[at]
    }

    /// The list of the family is written, if it is still the one that was meant; and logs of others.
    fn store(&mut self, at: usize) -> bool {
        for (uid, write) in std::mem::take(&mut self.worlds[at].closed) {
            let mut worlds = self.worlds.iter_mut();
            let other = worlds.find(|world| world.owner.uid == uid).unwrap();
            other.write_slice(&write);
        }
        let Some((rv, retries)) = self.worlds[at].joined.take() else {
            return false;
        };
        let first = &mut self.worlds[0];
        let meant = first.rv == rv;
        if meant {
            first.rv += 1;
            first.status["retries"] = serde_json::to_value(retries).unwrap();
        }
        meant
    }

    /// Plans and applies until nothing is left to do.
    fn settle(&mut self, at: usize) {
        loop {
            let done = self.look(at).crash_after(usize::MAX);
            self.store(at);
            if done == 0 {
                return;
            }
        }
    }

    /// Lets a retry run, and its pods end with `exit_code`.
    fn run(&mut self, at: usize, exit_code: i32) {
        self.settle(at);
        self.worlds[at].run_all();
        self.settle(at);
        let created = self.worlds[at].created.clone();
        for (_, node) in created {
            self.worlds[at].end(&node, exit_code);
        }
        self.settle(at);
    }

    fn ended(&self, at: usize) -> (Option<(bool, String)>, usize) {
        let world = &self.worlds[at];
        (world.condition(types::COMPLETE), world.created.len())
    }
}

fn yes(reason: &str) -> (bool, String) {
    (true, reason.to_owned())
}

#[test]
fn a_retry_made_three_times_runs_its_node_once() {
    let mut family = Relatives::of(&["n0001"], json!({"executionPolicy": "AtMostOnce"}));
    let retries = [0; 3].map(|_| family.retry(&["n0001"], 0));
    for retry in retries {
        family.settle(retry);
    }
    // The first has its turn, the others wait for it.
    assert_eq!(family.worlds[1].created.len(), 1);
    for retry in &retries[1..] {
        let waits = family.worlds[*retry].condition(types::RECONCILING);
        assert_eq!(waits, Some(yes(reasons::WAITING_FOR_JOB)));
        let message = family.worlds[*retry].message(types::RECONCILING);
        assert_eq!(message, "BroadcastJob fix-retry-1 has not ended");
    }
    for retry in retries {
        family.run(retry, 0);
    }
    assert_eq!(
        family.ended(1),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
    for retry in &retries[1..] {
        let expected = (Some(yes(reasons::ALREADY_SUCCEEDED)), 0);
        assert_eq!(family.ended(*retry), expected);
        let refused = &family.worlds[*retry].status["refused"][0];
        assert_eq!(refused["sample"], json!(["n0001"]));
    }
    let listed = family.worlds[0].job().status.retries;
    assert_eq!(listed.len(), 1, "those who had nothing to do took no turn");
}

#[test]
fn a_node_that_failed_in_a_retry_is_tried_again_by_who_knew_that_and_nobody_else() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let (one, twice) = (family.retry(&["n0001"], 0), family.retry(&["n0001"], 0));
    family.run(one, 1);
    family.run(twice, 1);
    assert_eq!(family.ended(twice), (Some(yes(reasons::ALREADY_TRIED)), 0));
    let knows = family.retry(&["n0001"], 1);
    family.run(knows, 0);
    assert_eq!(
        family.ended(knows),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn a_node_where_a_retry_started_nothing_is_tried_by_the_next_one() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let (one, next) = (family.retry(&["n0001"], 0), family.retry(&["n0001"], 0));
    family.run(one, 1);
    let record = &mut family.worlds[one].slices[0].records[0];
    record.state = NodeState::Disrupted;
    record.reason = results::WITHDRAWN.into();
    family.run(next, 0);
    assert_eq!(
        family.ended(next),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn a_retry_without_nodes_serves_all_that_have_not_succeeded() {
    let mut family = Relatives::of(&["n0000", "n0002"], json!({}));
    let retry = family.retry(&["n0000"], 0);
    family.worlds[retry].spec["nodeNames"] = Value::Null;
    family.run(retry, 0);
    let tried: Vec<&str> = family.worlds[retry]
        .created
        .iter()
        .map(|(_, n)| &**n)
        .collect();
    assert_eq!(tried, ["n0000", "n0002"]);
    assert_eq!(family.worlds[retry].status["done"], "2/2");
}

#[test]
fn two_who_enter_themselves_at_once_are_told_apart_by_the_version_of_the_list() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let (one, other) = (family.retry(&["n0001"], 0), family.retry(&["n0001"], 0));
    // Both have looked before one of them writes.
    family.look(one).crash_after(usize::MAX);
    family.look(other).crash_after(usize::MAX);
    assert_eq!([family.store(one), family.store(other)], [true, false]);
    family.settle(one);
    family.settle(other);
    let created = [one, other].map(|at| family.worlds[at].created.len());
    assert_eq!(created, [1, 0]);
}

#[test]
fn a_retry_waits_for_the_first_job_and_says_so() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let ended = family.worlds[0].status.clone();
    family.worlds[0].status = json!({});
    let retry = family.retry(&["n0001"], 0);
    family.settle(retry);
    let world = &family.worlds[retry];
    assert_eq!(
        world.condition(types::RECONCILING),
        Some(yes(reasons::WAITING_FOR_JOB))
    );
    assert_eq!(world.created.len(), 0);
    // Its status may be seen before its log.
    family.worlds[0].status = ended;
    let log = std::mem::take(&mut family.worlds[0].slices);
    family.settle(retry);
    assert_eq!(family.worlds[retry].created.len(), 0);
    assert!(family.worlds[retry].plan().wake.is_some());
    family.worlds[0].slices = log;
    family.run(retry, 0);
    assert_eq!(
        family.ended(retry),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn a_pod_of_another_job_that_lingers_or_is_not_seen_holds_its_node() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let pod = family.worlds[0].pod_on("n0001");
    let seen = family.worlds[0].pods.clone();
    family.worlds[0].pods.get_mut(&pod).unwrap().phase = PodPhase::Running;
    let retry = family.retry(&["n0001"], 0);
    family.settle(retry);
    let world = &family.worlds[retry];
    assert_eq!(
        world.condition(types::RECONCILING),
        Some(yes(reasons::RUNS_ELSEWHERE))
    );
    assert!(
        world
            .message(types::RECONCILING)
            .contains("n0001: BroadcastJob fix;")
    );
    assert_eq!(world.created.len(), 0);
    // It is not in the cache: the API server is asked before anything is started.
    family.worlds[0].pods.remove(&pod);
    let asked = family.look(retry).words();
    assert!(
        asked.contains(&"confirm_gone") && !asked.contains(&"join_family"),
        "{asked:?}"
    );
    family.worlds[0].pods = seen;
    family.run(retry, 0);
    assert_eq!(
        family.ended(retry),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn a_pod_that_was_taken_from_another_job_holds_its_node_until_it_has_ended() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let pod = family.worlds[0].pod_on("n0001");
    let mut row = family.worlds[0].pods.remove(&pod).unwrap();
    row.phase = PodPhase::Running;
    let retry = family.retry(&["n0001"], 0);
    family.worlds[retry].unseen.insert(pod.clone(), row.clone());
    for _ in 0..20 {
        family.settle(retry);
        family.worlds[retry].pass(61);
    }
    let world = &mut family.worlds[retry];
    let waits = Some(yes(reasons::RUNS_ELSEWHERE));
    assert_eq!(world.condition(types::RECONCILING), waits);
    assert_eq!(world.created.len(), 0);
    row.phase = PodPhase::Failed;
    world.unseen.insert(pod, row);
    family.run(retry, 0);
    assert_eq!(
        family.ended(retry),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn a_job_that_is_gone_with_its_results_leaves_its_retries_stalled() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let (gone, later) = (family.retry(&["n0001"], 0), family.retry(&["n0001"], 1));
    family.run(gone, 1);
    family.gone.insert(gone);
    family.worlds[gone].slices.clear();
    family.settle(later);
    let world = &family.worlds[later];
    let stalled = Some(yes(reasons::RETRIED_JOB_GONE));
    assert_eq!(world.condition(types::STALLED), stalled);
    let told = world.message(types::STALLED);
    let expected =
        "BroadcastJob fix-retry-1, a retry of fix, is gone, and so are its NodeResultSlices";
    assert!(told.contains(expected), "{told}");
    // Its first slice is gone, and a later one is there.
    family.worlds[gone].slices = vec![crate::record::Slice {
        index: 1,
        sealed: true,
        ..crate::record::Slice::default()
    }];
    let part = family.retry(&["n0001"], 1);
    family.settle(part);
    let told = family.worlds[part].message(types::STALLED);
    let expected = "is gone, and so are some of its NodeResultSlices";
    assert!(told.contains(expected), "{told}");
    let other = family.retry(&["n0001"], 0);
    family.worlds[other].others = Some(Others::default());
    family.worlds[other].settle();
    assert_eq!(family.worlds[other].condition(types::STALLED), stalled);
    assert!(family.worlds[other].created.is_empty());
    let told = family.worlds[other].message(types::STALLED);
    assert!(
        told.starts_with("there is no BroadcastJob fix with uid"),
        "{told}"
    );
    // One of this name is there, and is another one.
    let misled = family.retry(&["n0001"], 0);
    let of_name = Some("4e0c5d6a-0b1c-4d2e-8f3a-00000000beef".parse().unwrap());
    family.worlds[misled].others = Some(Others {
        other: of_name,
        ..Others::default()
    });
    family.worlds[misled].settle();
    assert_eq!(family.worlds[misled].condition(types::STALLED), stalled);
    let told = family.worlds[misled].message(types::STALLED);
    let expected =
        "spec.retryOf: BroadcastJob fix has uid 4e0c5d6a-0b1c-4d2e-8f3a-00000000beef, and not ";
    assert!(told.starts_with(expected), "{told}");
    let expected = "create the job again with uid 4e0c5d6a-0b1c-4d2e-8f3a-00000000beef";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_retry_of_a_retry_is_told_what_to_write() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let (one, chained) = (family.retry(&["n0001"], 0), family.retry(&["n0001"], 0));
    family.run(one, 1);
    let mut first = family.other(one);
    first.name = "fix".to_owned();
    family.worlds[chained].others = Some(Others {
        first: Some(first),
        ..Others::default()
    });
    family.worlds[chained].settle();
    let world = &family.worlds[chained];
    assert_eq!(
        world.condition(types::STALLED),
        Some(yes(reasons::INVALID_SPEC))
    );
    assert!(
        world
            .message(types::STALLED)
            .contains("is a retry itself; create the job again with name fix")
    );
    assert!(world.created.is_empty() && world.joined.is_none());
}

#[test]
fn a_list_that_is_full_or_cannot_be_read_is_not_written() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let retry = family.retry(&["n0001"], 0);
    let mut first = family.other(0);
    let others = |first: &Other| {
        Some(Others {
            first: Some(first.clone()),
            ..Others::default()
        })
    };
    let entry = carillon_api::Retry::default();
    first.job.as_mut().unwrap().status.retries = vec![entry; 100];
    family.worlds[retry].others = others(&first);
    family.worlds[retry].settle();
    let stalled = family.worlds[retry].condition(types::STALLED);
    assert_eq!(stalled, Some(yes(reasons::TOO_MANY_RETRIES)));
    assert_eq!(
        family.worlds[retry].message(types::STALLED),
        "BroadcastJob fix: status.retries has 100 entries, and 100 are the most; delete this job and create one without spec.retryOf, with the nodes to run in spec.nodeNames"
    );
    family.worlds[0].status["retries"] = json!([{"name": "fix-retry-9"}]);
    family.worlds[retry].others = others(&family.other(0));
    family.worlds[retry].settle();
    let stalled = family.worlds[retry].condition(types::STALLED);
    assert_eq!(stalled, Some(yes(reasons::INVALID_SPEC)));
    assert!(family.worlds[retry].joined.is_none());
}

#[test]
fn no_time_to_live_ends_while_the_results_are_needed() {
    let ttl = json!({"completionPolicy": {"ttlSecondsAfterFinished": 10}});
    let mut family = Relatives::of(&["n0001"], ttl.clone());
    family.worlds[0].pass(11);
    let open = |open: Option<&str>| {
        Some(Others {
            open: open.map(str::to_owned),
            ..Others::default()
        })
    };
    family.worlds[0].others = open(Some("fix-retry-1"));
    assert!(!family.worlds[0].words().contains(&"delete_job"));
    family.worlds[0].others = open(None);
    assert_eq!(family.worlds[0].words(), ["delete_job"]);
    let retry = family.retry(&["n0001"], 0);
    family.worlds[retry].spec["completionPolicy"] = ttl["completionPolicy"].clone();
    family.run(retry, 0);
    family.worlds[retry].pass(11);
    assert!(!family.look(retry).words().contains(&"delete_job"));
    family.worlds[retry].others = Some(Others::default());
    assert_eq!(family.worlds[retry].words(), ["delete_job"]);
}

/// What a retry would do without its family, against what the interlock sees.
#[test]
fn the_interlock_knows_the_family_by_itself() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let retry = family.retry(&["n0000", "n0001"], 0);
    let world = family.look(retry);
    // A plan that knows of no family.
    world.spec["retryOf"] = Value::Null;
    let blind = world.plan();
    let trip = |family: &mut Relatives| {
        let world = family.look(retry);
        world.spec["retryOf"] = json!({"name": "fix", "uid": world.others.as_ref().unwrap().first.as_ref().unwrap().uid.to_string()});
        world.verify(&blind).unwrap_err()
    };
    let found = trip(&mut family);
    assert!(
        found.rule == "family" && found.what.contains("in the list of its family"),
        "{found}"
    );
    let own = json!([{"name": "fix-retry-1", "uid": family.worlds[retry].owner.uid.to_string()}]);
    family.worlds[0].status["retries"] = own;
    let found = trip(&mut family);
    assert!(
        found
            .what
            .contains("n0000: served; expected nothing, it succeeded or may have in job fix"),
        "{found}"
    );
    family.worlds[0].slices[0].sealed = false;
    let found = trip(&mut family);
    assert!(
        found.what.contains("while job fix has an open log"),
        "{found}"
    );
}

#[test]
fn the_interlock_lets_nobody_push_in() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let (one, other) = (family.retry(&["n0001"], 0), family.retry(&["n0001"], 0));
    let join = family.look(one).plan();
    let is_join = |action: &Action| matches!(action, Action::JoinFamily { .. });
    assert!(
        join.steps
            .iter()
            .flat_map(|step| &step.actions)
            .any(is_join)
    );
    // Another one has its turn by now.
    family.settle(other);
    let found = family.look(one).verify(&join).unwrap_err();
    assert!(found.what.contains("as it was read"), "{found}");
    let mut pushed = join.clone();
    for action in pushed.steps.iter_mut().flat_map(|step| &mut step.actions) {
        if let Action::JoinFamily { rv, retries, .. } = action {
            *rv += 1;
            let first = &family.worlds[0].job().status.retries[0];
            retries.insert(0, first.clone());
        }
    }
    let found = family.look(one).verify(&pushed).unwrap_err();
    assert!(
        found.what.contains("job fix-retry-2 has not ended"),
        "{found}"
    );
    assert_eq!(
        family.worlds[one].attempts("n0001"),
        Vec::<(NodeState, String)>::new()
    );
    assert_eq!(results::ALREADY_TRIED, reasons::ALREADY_TRIED);
}

#[test]
fn a_promise_is_not_kept_before_the_last_pod_of_another_job_is_known_to_be_gone() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let retry = family.retry(&["n0001"], 0);
    let pod = family.worlds[0].pod_on("n0001");
    family.worlds[0].pods.remove(&pod);
    // It asks, takes its turn and reserves; then the process dies, and with it what it was told.
    while family.worlds[retry].slices.is_empty() {
        family.look(retry).crash_after(1);
        family.store(retry);
    }
    assert!(family.worlds[retry].created.is_empty());
    family.worlds[retry].gone.clear();
    let words = family.look(retry).words();
    assert!(
        words.contains(&"confirm_gone") && !words.contains(&"create_pod"),
        "{words:?}"
    );
    family.run(retry, 0);
    assert_eq!(
        family.ended(retry),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn a_retry_that_waits_for_a_pod_of_another_job_looks_again_soon() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let pod = family.worlds[0].pod_on("n0001");
    let first = &mut family.worlds[0];
    first.pods.get_mut(&pod).unwrap().phase = PodPhase::Running;
    let retry = family.retry(&["n0001"], 0);
    family.settle(retry);
    assert!(family.worlds[0].job().status.retries.is_empty());
    let soon = family.worlds[retry].now + SignedDuration::from_secs(10);
    assert_eq!(family.look(retry).plan().wake, Some(soon));
    family.worlds[0].pods.remove(&pod);
    family.run(retry, 0);
    assert_eq!(
        family.ended(retry),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn where_nothing_may_run_twice_a_retry_waits_for_what_may_still_be_created() {
    let mut first = World::new(2, json!({"executionPolicy": "AtMostOnce"}));
    first.owner = ObjectKey::of(BROADCAST_JOB, "ops", "fix", first.uid());
    // The slice is written and the pod of n0000 created; the creation of n0001 is under way.
    first.crash_after(2);
    first.run_all();
    first.end("n0000", 1);
    first.settle();
    assert!(first.is(types::FAILED));
    let skipped = (NodeState::Skipped, results::NOT_STARTED.to_owned());
    assert_eq!(first.attempts("n0001"), [skipped]);
    let mut family = Relatives {
        worlds: vec![first],
        gone: BTreeSet::new(),
    };
    let retry = family.retry(&["n0001"], 0);
    family.worlds[retry].spec["executionPolicy"] = json!("AtMostOnce");
    family.settle(retry);
    assert!(family.worlds[retry].created.is_empty());
    family.worlds[retry].pass(60);
    family.settle(retry);
    assert_eq!(family.worlds[retry].created.len(), 1);
}

#[test]
fn a_time_to_live_that_waits_says_for_whom() {
    let ttl = json!({"completionPolicy": {"ttlSecondsAfterFinished": 10}});
    let mut family = Relatives::of(&["n0001"], ttl.clone());
    family.worlds[0].others = Some(Others {
        open: Some("fix-retry-1".to_owned()),
        ..Others::default()
    });
    family.worlds[0].settle();
    assert_eq!(family.worlds[0].condition(types::EXPIRY_WAITS), None);
    let due = family.worlds[0].plan().wake.expect("the time to live ends");
    family.worlds[0].now = due;
    family.worlds[0].settle();
    let first = &family.worlds[0];
    let waits = Some(yes(reasons::RETRY_HAS_NOT_ENDED));
    assert_eq!(first.condition(types::EXPIRY_WAITS), waits);
    let told = first.message(types::EXPIRY_WAITS);
    assert_eq!(
        told,
        "spec.completionPolicy.ttlSecondsAfterFinished: 10 s have passed, and BroadcastJob fix-retry-1, a retry of this job, has not ended; let it end, resume it if it is paused, or delete it"
    );
    // With more time it waits for nobody.
    family.worlds[0].spec["completionPolicy"] = json!({"ttlSecondsAfterFinished": 1000});
    family.worlds[0].settle();
    let no = Some((false, reasons::NOT_EXPIRED.to_owned()));
    assert_eq!(family.worlds[0].condition(types::EXPIRY_WAITS), no);
    let retry = family.retry(&["n0001"], 0);
    family.worlds[retry].spec["completionPolicy"] = ttl["completionPolicy"].clone();
    family.run(retry, 0);
    family.worlds[retry].pass(11);
    family.settle(retry);
    let waits = Some(yes(reasons::RETRIED_JOB_THERE));
    assert_eq!(family.worlds[retry].condition(types::EXPIRY_WAITS), waits);
}

#[test]
fn a_retry_that_waits_for_a_pod_that_was_taken_says_so_all_the_time() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let pod = family.worlds[0].pod_on("n0001");
    let mut row = family.worlds[0].pods.remove(&pod).unwrap();
    row.phase = PodPhase::Running;
    let retry = family.retry(&["n0001"], 0);
    family.worlds[retry].unseen.insert(pod, row);
    family.settle(retry);
    let mut asked = 0;
    for _ in 0..60 {
        let words = family.look(retry).words();
        asked += usize::from(words.contains(&"confirm_gone"));
        assert!(!words.contains(&"write_status"), "{words:?}");
        family.settle(retry);
        let world = &mut family.worlds[retry];
        let waits = Some(yes(reasons::RUNS_ELSEWHERE));
        assert_eq!(world.condition(types::RECONCILING), waits);
        let soon = world.now + SignedDuration::from_secs(10);
        assert_eq!(world.plan().wake, Some(soon));
        world.pass(10);
    }
    assert!(asked >= 10, "{asked}");
}

#[test]
fn a_retry_that_has_asked_in_vain_for_a_pod_of_another_job_looks_again_soon() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let pod = family.worlds[0].pod_on("n0001");
    family.worlds[0].pods.remove(&pod);
    let retry = family.retry(&["n0001"], 0);
    let soon = family.worlds[retry].now + SignedDuration::from_secs(10);
    let plan = family.look(retry).plan();
    assert_eq!(plan.wake, Some(soon), "before it has its turn");
    while family.worlds[retry]
        .slices
        .iter()
        .all(|slice| slice.records.is_empty())
    {
        family.look(retry).crash_after(1);
        family.store(retry);
    }
    family.worlds[retry].gone.clear();
    let words = family.look(retry).words();
    assert!(words.contains(&"confirm_gone"), "{words:?}");
    let plan = family.look(retry).plan();
    assert_eq!(plan.wake, Some(soon), "before it keeps its promise");
}
