//! Seeded histories: pods end as they like, users interfere, and the operator dies after any write.

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::super::action::{Act, Action};
use super::super::unanswered::may_come_until;
use super::world::World;
use crate::pod::PodPhase;

/// The kubelet, the scheduler and users do one thing.
fn happen(world: &mut World, rng: &mut Rng, users: bool) {
    world.pass(rng.i64(0..8));
    let names = world.names();
    let Some(name) = rng.choice(&names) else {
        return;
    };
    let pod = world.pods.get_mut(name.as_str()).unwrap();
    match (pod.phase, rng.u8(0..10)) {
        (PodPhase::Pending, _) if !pod.deleting => {
            pod.assigned = true;
            pod.phase = PodPhase::Running;
            pod.ready = rng.bool().then_some(world.now);
        }
        (PodPhase::Running | PodPhase::Pending, 0..6) if !pod.deleting => {
            world.end(name, PodPhase::Succeeded, 0);
        }
        (PodPhase::Running | PodPhase::Pending, 0..9) => world.end(name, PodPhase::Failed, 1),
        _ if users => world.delete(name),
        _ => {}
    }
}

/// Runs one history to the end of its Job.
fn run(seed: u64, spec: &serde_json::Value, users: bool) -> World {
    let rng = &mut Rng::with_seed(seed);
    let mut world = World::new(spec.clone());
    let most = world.job.spec.parallelism as usize;
    let limits = &mut world.limits;
    limits.max_uncounted = rng.usize(1..4);
    limits.max_pod_changes = rng.usize(1..5);
    for _ in 0..4000 {
        if world.job.has_finished() {
            break;
        }
        if rng.u8(0..3) == 0 {
            happen(&mut world, rng, users);
        }
        let writes = if rng.bool() {
            usize::MAX
        } else {
            rng.usize(0..6)
        };
        if world.sync_until(writes) && rng.bool() {
            // Whoever died has forgotten what was not stored.
            world.backoff = super::super::backoff::BackoffRecord::default();
        }
        assert!(
            world.active() <= most,
            "seed {seed}: {} active",
            world.active()
        );
    }
    assert!(
        world.job.has_finished(),
        "seed {seed}: {:?}",
        world.job.status
    );
    world.settle();
    let held = world.pods.values().filter(|pod| pod.tracked).count();
    assert_eq!(held, 0, "seed {seed}: pods that nobody releases");
    world
}

#[test]
fn whatever_happens_each_pod_is_counted_once_and_the_job_ends() {
    for seed in 0..300 {
        let spec = json!({"parallelism": 3, "completions": 6, "backoffLimit": 1000});
        let world = run(seed, &spec, false);
        assert!(world.job.has("Complete"), "seed {seed}");
        let (_, succeeded, failed) = world.counts();
        assert_eq!(succeeded, 6, "seed {seed}");
        let counted = world.made as i32 - world.uncounted.len() as i32;
        assert_eq!(
            succeeded + failed,
            counted,
            "seed {seed}: {:?}",
            world.job.status
        );
    }
}

#[test]
fn whatever_users_delete_no_index_is_lost_or_run_side_by_side() {
    for seed in 0..300 {
        let spec = json!({
            "parallelism": 3, "completions": 5, "completionMode": "Indexed", "backoffLimit": 1000,
            "podReplacementPolicy": "Failed",
        });
        let world = run(seed, &spec, true);
        assert!(world.job.has("Complete"), "seed {seed}");
        let status = &world.job.status;
        assert_eq!(
            status.completed_indexes.as_deref(),
            Some("0-4"),
            "seed {seed}"
        );
    }
}

#[test]
fn with_limits_per_index_a_job_ends_with_what_failed() {
    let mut complete = 0;
    for seed in 0..300 {
        let spec = json!({
            "parallelism": 2, "completions": 4, "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
        });
        let world = run(seed, &spec, seed % 2 == 0);
        let status = &world.job.status;
        let failed = status.failed_indexes.as_deref().unwrap_or_default();
        assert_eq!(
            world.job.has("Failed"),
            !failed.is_empty(),
            "seed {seed}: {status:?}"
        );
        complete += usize::from(failed.is_empty());
    }
    assert!(
        (30..270).contains(&complete),
        "{complete} of 300 have not failed"
    );
}

#[test]
fn a_job_past_its_backoff_limit_fails_and_lets_go_of_everything() {
    for seed in 0..300 {
        let spec = json!({"parallelism": 3, "completions": 40, "backoffLimit": 2});
        let world = run(seed, &spec, true);
        // With so many pods, of which every third fails, each of these histories comes to that.
        let failed = ("Failed", "True", "BackoffLimitExceeded");
        let conditions = world.conditions();
        assert!(conditions.contains(&failed), "seed {seed}: {conditions:?}");
        let (active, _, failed) = world.counts();
        assert!(
            active == 0 && failed > 2,
            "seed {seed}: {:?}",
            world.job.status
        );
        assert_eq!(world.active(), 0, "seed {seed}: pods that nobody stops");
    }
}

#[test]
fn a_plan_that_is_carried_out_leaves_nothing_to_do_but_to_wait() {
    for seed in 0..100 {
        let rng = &mut Rng::with_seed(seed);
        let mut world = World::new(json!({"parallelism": 4, "completions": 9}));
        for _ in 0..60 {
            happen(&mut world, rng, true);
            world.settle();
        }
    }
}

/// Creations of which nobody hears: their pods are there, come within a minute, or never do.
#[derive(Default)]
struct Lost {
    flying: Vec<(Timestamp, Action)>,
}

impl Lost {
    /// Carries a plan out; of some creations there is no answer, and those after them are not tried.
    fn sync(&mut self, world: &mut World, rng: &mut Rng) {
        let pods = &world.pods;
        let unanswered = &mut world.unanswered;
        let now = world.now;
        unanswered.retain(|name, until| *until > now || !pods.contains_key(name.as_str()));
        for step in world.plan().steps {
            for action in step.actions {
                let Action::CreatePod(pod) = &action else {
                    world.apply(action);
                    continue;
                };
                if rng.u8(0..3) > 0 {
                    world.apply(action);
                    continue;
                }
                let until = may_come_until(world.now);
                world.unanswered.insert(pod.name.clone(), until);
                match rng.u8(0..3) {
                    0 => world.apply(action),
                    1 => {
                        let late = SignedDuration::from_secs(rng.i64(0..60));
                        self.flying.push((world.now + late, action));
                    }
                    _ => {}
                }
                break;
            }
        }
    }

    /// What is due by now arrives.
    fn arrive(&mut self, world: &mut World) {
        let now = world.now;
        for (_, action) in self.flying.extract_if(.., |(at, _)| *at <= now) {
            world.apply(action);
        }
    }
}

#[test]
fn creations_without_an_answer_make_no_pod_too_many_and_none_after_the_end() {
    for (spec, seeds) in [
        (json!({"completions": 6, "backoffLimit": 1000}), 0..200),
        (json!({"backoffLimit": 1000}), 0..200),
        (
            json!({"completions": 6, "completionMode": "Indexed", "backoffLimit": 1000}),
            0..200,
        ),
        (
            json!({
                "completions": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
                "podReplacementPolicy": "Failed",
            }),
            0..200,
        ),
    ] {
        for seed in seeds {
            let rng = &mut Rng::with_seed(seed);
            let mut spec = spec.clone();
            spec["parallelism"] = json!(3);
            let mut world = World::new(spec.clone());
            world.limits.max_pod_changes = rng.usize(1..5);
            let mut lost = Lost::default();
            for _ in 0..4000 {
                if world.job.has_finished() {
                    break;
                }
                lost.arrive(&mut world);
                match rng.u8(0..20) {
                    0..8 => happen(&mut world, rng, seed % 2 == 0),
                    8 => world.job.spec.parallelism = rng.i32(1..=3),
                    9 => world.job.spec.suspend = rng.u8(0..4) == 0,
                    _ => {}
                }
                lost.sync(&mut world, rng);
                let active = world.pods.values().filter(|pod| pod.is_active());
                let mut indexes: Vec<_> = active.map(|pod| pod.index).collect();
                assert!(indexes.len() <= 3, "seed {seed}: {spec}");
                indexes.sort_unstable();
                indexes.dedup();
                let one_each = indexes.len() == world.active() || indexes == [None];
                assert!(one_each, "seed {seed}: {spec}");
            }
            assert!(world.job.has_finished(), "seed {seed}: {spec}");
            let flies = |(_, action): &(Timestamp, Action)| {
                let name = action.object().unwrap_or_default();
                !world.pods.contains_key(name.as_str())
            };
            assert!(!lost.flying.iter().any(flies), "seed {seed}: {spec}");
        }
    }
}
