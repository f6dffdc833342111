//! Seeded histories of crashes, users and clusters, with the promises checked after every write.

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::NodeState;
use carillon_api::condition::{results, types};
use jiff::Timestamp;
use serde_json::json;

use super::world::World;
use crate::broadcast_job::{Snapshot, Taken, TakenPods, plan};
use crate::pod::{PodPhase, Pods};
use crate::record::Record;
use crate::uid::Uid;

/// xorshift64*: small, seeded, the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

const PARALLELISM: usize = 3;

/// The policies of one history.
struct Rules {
    at_most_once: bool,
    retries: usize,
    /// Exit codes with which pods fail.
    codes: i32,
    lost_after: i64,
    /// Nodes become not ready.
    lossy: bool,
    /// Somebody asks for retries.
    asks: bool,
    spec: serde_json::Value,
}

impl Rules {
    fn roll(dice: &mut Dice) -> Self {
        let at_most_once = dice.below(3) == 0;
        let retries = if at_most_once { 0 } else { dice.below(3) };
        let (judged, lossy) = (dice.below(3) == 0, dice.below(3) == 0);
        let lost_after = [300, 2][dice.below(2)];
        let mut spec = json!({
            "parallelism": PARALLELISM,
            "executionPolicy": if at_most_once { "AtMostOnce" } else { "AtLeastOnce" },
            "backoffLimitPerNode": retries,
            "failurePolicy": {
                "type": (["Continue", "FailFast"][dice.below(2)]),
                "maxFailedNodes": ([json!(0), json!(1), json!("50%")][dice.below(3)]),
            },
            "nodeLostTimeoutSeconds": lost_after,
            "podTerminationTimeoutSeconds": lost_after,
            "noEligibleNodesPolicy": (["Wait", "Complete", "Fail"][dice.below(3)]),
        });
        if judged {
            let rule = |action, code: i32| {
                json!({
                "action": action, "onExitCodes": {"operator": "In", "values": [code]}})
            };
            let mut rules = vec![rule("FailNode", 2), rule("FailJob", 3)];
            if !at_most_once {
                rules.push(rule("Ignore", 4));
                let condition = json!([{"type": "DisruptionTarget"}]);
                rules.push(json!({"action": "Ignore", "onPodConditions": condition}));
            }
            spec["podFailurePolicy"] = json!({ "rules": rules });
        }
        if dice.below(3) == 0 {
            spec["podStartDeadlineSeconds"] = json!(1 + dice.below(3));
        }
        if dice.below(4) == 0 {
            spec["nodeNames"] = json!(["n0000", "n0002", "n0003", "n0005"]);
        }
        Self {
            at_most_once,
            retries,
            codes: if judged { 4 } else { 1 },
            lost_after,
            lossy,
            asks: !at_most_once && dice.below(3) == 0,
            spec,
        }
    }
}

/// What was seen so far, to be held against what is stored later.
#[derive(Default)]
struct Past {
    done: BTreeMap<(String, Uid), usize>,
    ended: BTreeMap<(usize, usize), Record>,
}

#[test]
fn no_history_runs_a_node_twice_or_two_pods_at_once_and_every_job_ends() {
    for seed in 1..=600 {
        run(seed);
    }
}

/// The plan does not depend on the order that its maps happen to have.
fn is_the_same_in_any_order(world: &World, seed: u64) {
    world.snapshot(|snapshot| {
        // Each map that is made has an order of its own.
        let pods: Pods = snapshot.pods.clone().into_iter().collect();
        let watched: TakenPods = snapshot.taken.watched.clone().into_iter().collect();
        let taken = Taken {
            watched: &watched,
            ..snapshot.taken
        };
        let other = Snapshot {
            pods: &pods,
            taken,
            ..*snapshot
        };
        let plans = [snapshot, &other].map(|snapshot| plan(snapshot, world.now));
        assert_eq!(plans[0], plans[1], "seed {seed}");
    });
}

fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let rules = Rules::roll(&mut dice);
    let mut world = World::new(6, rules.spec.clone());
    let mut past = Past::default();
    for _ in 0..120 {
        match dice.below(11) {
            0..5 => {
                let writes = dice.below(8);
                let before = records(&world).count();
                world.crash_after(writes);
                if records(&world).count() > before {
                    let taken = taken(&world, &rules);
                    assert!(taken <= PARALLELISM, "seed {seed}: {taken} places taken");
                }
            }
            5 => world.run_all(),
            6 => one_ends(&mut world, &mut dice, rules.codes),
            7 => one_is_deleted(&mut world, &mut dice),
            8 => node_changes(&mut world, &mut dice),
            9 if rules.asks => somebody_asks(&mut world, &mut dice),
            9 if rules.lossy => node_is_silent(&mut world, &mut dice),
            _ => world.pass(1),
        }
        check(&world, &rules, &mut past, seed);
        is_the_same_in_any_order(&world, seed);
    }
    // The faults stop: the job comes to an end.
    for name in ["n0000", "n0001"] {
        if !world.nodes.contains_key(name) {
            world.join(name);
        }
    }
    for node in world.nodes.values_mut() {
        node.unschedulable = false;
        node.not_ready_since = None;
    }
    world.run_to_the_end();
    for _ in 0..60 {
        // Back-offs end.
        let Some(wake) = world.plan().wake else { break };
        world.now = wake;
        world.run_to_the_end();
    }
    check(&world, &rules, &mut past, seed);
    let ended = world.is(types::COMPLETE) || world.is(types::FAILED);
    assert!(ended, "seed {seed}: {}", world.status);
    assert!(
        world.pods.values().all(|pod| !pod.tracked),
        "seed {seed}: a finalizer was left"
    );
    let unfinished = records(&world).any(|record| !record.is_final());
    assert!(!unfinished, "seed {seed}");
}

fn records(world: &World) -> impl Iterator<Item = &Record> {
    world.slices.iter().flat_map(|slice| &slice.records)
}

/// Places of parallelism that are taken: reservations, and pods that have not ended and whose node
/// answers, or has not been silent for long.
fn taken(world: &World, rules: &Rules) -> usize {
    let long_ago = |since: Option<Timestamp>| {
        since.is_some_and(|at| world.now.duration_since(at).as_secs() >= rules.lost_after)
    };
    let takes = |record: &&Record| {
        let Some(pod) = world.pods.get(&record.pod) else {
            return !record.is_final() && record.pod_uid.is_none();
        };
        let node = world.nodes.get(&record.node);
        let node = node.filter(|node| node.uid == record.node_uid);
        let silent = match node {
            _ if pod.node.is_none() => None,
            Some(node) => node.not_ready_since,
            None => record.node_gone,
        };
        let lost = long_ago(silent) || long_ago(pod.deletion.map(|deletion| deletion.due));
        !pod.phase.has_ended() && !lost
    };
    records(world).filter(takes).count()
}

fn one_ends(world: &mut World, dice: &mut Dice, codes: i32) {
    let mut running: Vec<_> = world
        .pods
        .iter()
        .filter(|(_, pod)| pod.phase == PodPhase::Running)
        .filter_map(|(_, pod)| pod.node.clone())
        .collect();
    running.sort();
    if !running.is_empty() {
        let node = running[dice.below(running.len())].clone();
        let fails = dice.below(6) == 0;
        let code = 1 + dice.below(codes as usize) as i32;
        world.end(&node, if fails { code } else { 0 });
    }
}

fn one_is_deleted(world: &mut World, dice: &mut Dice) {
    let mut pods: Vec<_> = world.pods.keys().cloned().collect();
    pods.sort();
    if !pods.is_empty() {
        let pod = pods[dice.below(pods.len())].clone();
        // Somebody strips our finalizer and deletes by force. Before the pod's uid is stored this
        // cannot be told from a creation that never happened; docs/broadcastjob.md says so.
        let seen = records(world)
            .filter(|r| r.pod == pod)
            .any(|r| r.pod_uid.is_some());
        if seen && dice.below(6) == 0 {
            world.vanish(&pod);
        } else {
            world.delete(&pod);
        }
    }
}

fn node_is_silent(world: &mut World, dice: &mut Dice) {
    let (name, now) = (format!("n{:04}", dice.below(6)), world.now);
    if let Some(node) = world.nodes.get_mut(&*name) {
        node.not_ready_since = node.not_ready_since.is_none().then_some(now);
    }
}

fn somebody_asks(world: &mut World, dice: &mut Dice) {
    let failed: Vec<String> = records(world)
        .filter(|record| record.state == NodeState::Failed)
        .map(|record| format!("{}/{}", record.node, record.attempt))
        .collect();
    if !failed.is_empty() {
        world.retry = Some(failed[dice.below(failed.len())].clone());
    }
}

fn node_changes(world: &mut World, dice: &mut Dice) {
    let name = format!("n{:04}", dice.below(7));
    match dice.below(4) {
        0 => world.join(&name),
        1 => drop(world.nodes.remove(&*name)),
        _ => {
            if let Some(node) = world.nodes.get_mut(&*name) {
                node.unschedulable = !node.unschedulable;
            }
        }
    }
}

fn check(world: &World, rules: &Rules, past: &mut Past, seed: u64) {
    // Names are locks: no two creations of one attempt.
    let names: BTreeSet<_> = world.created.iter().map(|(pod, _)| pod).collect();
    assert_eq!(
        names.len(),
        world.created.len(),
        "seed {seed}: an attempt was created twice"
    );
    // At most one pod that has not ended, per node.
    let mut live: BTreeMap<&str, usize> = BTreeMap::new();
    for (pod, node) in &world.created {
        if world
            .pods
            .get(pod)
            .is_some_and(|pod| !pod.phase.has_ended())
        {
            *live.entry(node).or_default() += 1;
        }
    }
    assert!(live.values().all(|n| *n <= 1), "seed {seed}: {live:?}");
    // What is final stays as it is.
    for (slice_at, slice) in world.slices.iter().enumerate() {
        for (at, record) in slice.records.iter().enumerate() {
            if record.is_final() {
                let first = past
                    .ended
                    .entry((slice_at, at))
                    .or_insert_with(|| record.clone());
                assert_eq!(first, record, "seed {seed}: an outcome was rewritten");
            }
        }
    }
    let mut attempts: BTreeMap<(String, Uid), Vec<&Record>> = BTreeMap::new();
    for record in records(world) {
        attempts
            .entry((record.node.to_string(), record.node_uid))
            .or_default()
            .push(record);
    }
    for (node, attempts) in attempts {
        check_node(world, rules, &node, &attempts, seed);
        // A success is stored once and followed by no further attempt on that node.
        let success = attempts
            .iter()
            .position(|record| record.state == NodeState::Succeeded);
        assert!(
            success.is_none_or(|at| at + 1 == attempts.len()),
            "seed {seed}: {node:?} {attempts:?}"
        );
        if success.is_some() {
            let first = *past.done.entry(node.clone()).or_insert(attempts.len());
            assert_eq!(
                first,
                attempts.len(),
                "seed {seed}: {node:?} ran again after its success"
            );
        }
    }
}

/// What the policies promise of the attempts on one node.
fn check_node(world: &World, rules: &Rules, node: &(String, Uid), attempts: &[&Record], seed: u64) {
    let ran = |record: &&&Record| world.ran.contains(&record.pod);
    if rules.at_most_once {
        let ran = attempts.iter().filter(ran).count();
        assert!(ran <= 1, "seed {seed}: {node:?} ran {ran} times");
    }
    let (_, before) = attempts.split_last().expect("an attempt");
    let mut failed = before.iter().filter(|r| r.state == NodeState::Failed);
    if !rules.asks {
        let failures = failed.clone().count();
        assert!(failures <= rules.retries, "seed {seed}: {node:?}");
        assert!(
            failed.all(|record| *record.reason != *results::FAILED_BY_RULE),
            "seed {seed}: {node:?} was tried again against a rule"
        );
    }
}

#[test]
fn who_sees_the_end_before_the_log_lets_no_pod_go_whose_outcome_is_not_recorded() {
    let mut world = World::new(1, json!({}));
    world.start();
    let (log, pods) = (world.slices.clone(), world.pods.clone());
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    let now = (world.slices.clone(), world.pods.clone());
    (world.slices, world.pods) = (log, pods);
    world.end_all();
    assert_eq!(world.words(), Vec::<&str>::new());
    world.slices = now.0;
    assert_eq!(world.words(), ["release_pod"]);
}
