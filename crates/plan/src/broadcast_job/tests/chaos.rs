//! Seeded histories of crashes, users and clusters, with the promises checked after every write.

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::NodeState;
use carillon_api::condition::types;
use serde_json::json;

use super::world::World;
use crate::pod::PodPhase;
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

#[test]
fn no_history_runs_a_node_twice_or_two_pods_at_once_and_every_job_ends() {
    for seed in 1..=300 {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let policy = ["Continue", "FailFast"][dice.below(2)];
    let spec = json!({"parallelism": PARALLELISM, "failurePolicy": {"type": policy}});
    let mut world = World::new(6, spec);
    let mut done: BTreeMap<(String, Uid), usize> = BTreeMap::new();
    for _ in 0..120 {
        match dice.below(10) {
            0..5 => {
                let writes = dice.below(8);
                world.crash_after(writes);
            }
            5 => world.run_all(),
            6 => one_ends(&mut world, &mut dice),
            7 => one_is_deleted(&mut world, &mut dice),
            8 => node_changes(&mut world, &mut dice),
            _ => world.pass(1),
        }
        check(&world, &mut done, seed);
    }
    // The faults stop: the job comes to an end.
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for name in names {
        world.node(&name).unschedulable = false;
    }
    world.run_to_the_end();
    for _ in 0..30 {
        // Back-offs end.
        let Some(wake) = world.plan().wake else { break };
        world.now = wake;
        world.run_to_the_end();
    }
    check(&world, &mut done, seed);
    let ended = world.is(types::COMPLETE) || world.is(types::FAILED);
    assert!(ended, "seed {seed}: {}", world.status);
    assert!(
        world.pods.values().all(|pod| !pod.tracked),
        "seed {seed}: a finalizer was left"
    );
    let unfinished = world
        .slices
        .iter()
        .flat_map(|s| &s.records)
        .any(|r| !r.is_final());
    assert!(!unfinished, "seed {seed}");
}

fn one_ends(world: &mut World, dice: &mut Dice) {
    let mut running: Vec<_> = world
        .pods
        .iter()
        .filter(|(_, pod)| pod.phase == PodPhase::Running)
        .filter_map(|(_, pod)| pod.node.clone())
        .collect();
    running.sort();
    if !running.is_empty() {
        let node = running[dice.below(running.len())].clone();
        world.end(&node, i32::from(dice.below(8) == 0));
    }
}

fn one_is_deleted(world: &mut World, dice: &mut Dice) {
    let mut pods: Vec<_> = world.pods.keys().cloned().collect();
    pods.sort();
    if !pods.is_empty() {
        let pod = pods[dice.below(pods.len())].clone();
        // Somebody strips our finalizer and deletes by force. Before the pod's uid is stored this
        // cannot be told from a creation that never happened; docs/how-it-works.md says so.
        let records = world.slices.iter().flat_map(|slice| &slice.records);
        let seen = records
            .filter(|r| r.pod == pod)
            .any(|r| r.pod_uid.is_some());
        if seen && dice.below(6) == 0 {
            world.vanish(&pod);
        } else {
            world.delete(&pod);
        }
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

fn check(world: &World, done: &mut BTreeMap<(String, Uid), usize>, seed: u64) {
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
    assert!(
        live.len() <= PARALLELISM,
        "seed {seed}: {} pods at once",
        live.len()
    );
    // A success is stored once and followed by no further attempt on that node.
    let mut attempts: BTreeMap<(String, Uid), Vec<NodeState>> = BTreeMap::new();
    for record in world.slices.iter().flat_map(|slice| &slice.records) {
        attempts
            .entry((record.node.to_string(), record.node_uid))
            .or_default()
            .push(record.state);
    }
    for (node, states) in attempts {
        let success = states
            .iter()
            .position(|state| *state == NodeState::Succeeded);
        assert!(
            success.is_none_or(|at| at + 1 == states.len()),
            "seed {seed}: {node:?} {states:?}"
        );
        if success.is_some() {
            let first = *done.entry(node.clone()).or_insert(states.len());
            assert_eq!(
                first,
                states.len(),
                "seed {seed}: {node:?} ran again after its success"
            );
        }
    }
}
