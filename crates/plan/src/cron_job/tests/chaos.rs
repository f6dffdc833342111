//! Seeded histories of crashes, users and clocks, with the promises checked at every write.

use std::collections::BTreeSet;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::fixture::{OF_ANOTHER, at};
use super::world::{self, Cause, Fault, World};
use crate::cron_job::{Api, Child, ChildKind, CronJob, RunOutcome};
use crate::uid::Uid;

/// With the instant from which a history begins.
const SCHEDULES: [(&str, Option<&str>, &str); 9] = [
    ("* * * * *", None, "2026-01-01T10:30:00Z"),
    ("*/7 * * * *", None, "2026-01-01T10:30:20Z"),
    ("0 * * * *", Some("Asia/Kolkata"), "2026-01-01T10:30:00Z"),
    ("30 10,11,12 * * 1-5", None, "2026-01-01T10:00:00Z"),
    // Clocks are put forward, and back.
    (
        "15,45 1-3 * * *",
        Some("Europe/Berlin"),
        "2026-03-28T22:00:00Z",
    ),
    (
        "15,45 1-3 * * *",
        Some("Europe/Berlin"),
        "2026-10-24T22:00:00Z",
    ),
    ("@every 10s", None, "2026-01-01T10:30:03Z"),
    ("@every 90s", None, "2026-01-01T10:30:00Z"),
    ("@every 1h", None, "2026-01-01T10:30:00Z"),
];

/// What may happen in one history.
#[allow(clippy::struct_excessive_bools)] // One die each.
struct Rules {
    /// Schedule, zone and the reading of changes of clocks are edited.
    reschedules: bool,
    /// Everything else of the spec is edited.
    edits: bool,
    /// The status is edited by hand.
    meddles: bool,
    /// Creations arrive after their sender has died.
    late: bool,
    /// Others have names that we need, and clocks are set.
    others: bool,
    /// The CronJob is deleted, and stays until its children are gone.
    deletes: bool,
}

fn pick<T: Clone>(dice: &mut Rng, of: &[T]) -> T {
    of[dice.usize(..of.len())].clone()
}

fn deadlines() -> [Value; 5] {
    [Value::Null, Value::Null, json!(0), json!(1), json!(200)]
}

fn setting(dice: &mut Rng, field: &str) -> Value {
    match field {
        "concurrencyPolicy" => pick(dice, &["Allow", "Forbid", "Replace", ""]).into(),
        "missedRunPolicy" => pick(dice, &["Latest", "Skip", "All"]).into(),
        "dstPolicy" => pick(dice, &["AsWritten", "Once"]).into(),
        "startingDeadlineSeconds" => pick(dice, &deadlines()),
        "suspend" => dice.bool().into(),
        "jitterSeconds" => pick(dice, &[0, 0, 40, 7200]).into(),
        "successfulJobsHistoryLimit" | "failedJobsHistoryLimit" => dice.u8(..3).into(),
        "broadcastJobTemplate" if dice.bool() => json!({"spec": {}}),
        _ => Value::Null,
    }
}

const SETTINGS: [&str; 8] = [
    "concurrencyPolicy",
    "missedRunPolicy",
    "startingDeadlineSeconds",
    "suspend",
    "jitterSeconds",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
    "broadcastJobTemplate",
];

fn world(dice: &mut Rng) -> World {
    let (schedule, zone, begin) = pick(dice, &SCHEDULES);
    let mut spec = json!({"schedule": schedule, "timeZone": zone, "jobTemplate": {"spec": {}}});
    for field in SETTINGS.iter().chain(&["dstPolicy"]) {
        if dice.bool() && *field != "suspend" {
            spec[field] = setting(dice, field);
        }
    }
    let api = pick(dice, &[Api::Carillon, Api::Carillon, Api::Native]);
    if api == Api::Native {
        for field in ["missedRunPolicy", "dstPolicy", "jitterSeconds"] {
            spec[field].take();
        }
        spec["broadcastJobTemplate"].take();
    }
    World::new(api, at(begin), spec)
}

#[test]
fn no_history_runs_a_tick_twice_or_against_the_policy_and_every_tick_is_run_or_counted() {
    for seed in 1..=2000 {
        run(seed);
    }
}

/// Tells which history it was.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

fn run(seed: u64) {
    let _told = Seed(seed);
    let mut dice = Rng::with_seed(seed);
    let mut world = world(&mut dice);
    let one_in = |dice: &mut Rng, n: u8| dice.u8(..n) == 0;
    let rules = Rules {
        reschedules: one_in(&mut dice, 3),
        edits: one_in(&mut dice, 2),
        meddles: one_in(&mut dice, 8),
        late: one_in(&mut dice, 4),
        others: one_in(&mut dice, 3),
        deletes: one_in(&mut dice, 6),
    };
    for _ in 0..dice.usize(20..80) {
        happens(&mut world, &mut dice, &rules);
    }
    calm(&mut world, seed);
    settled(&world, &rules, seed);
    // When it wakes there is something to do, unless a clock was set back.
    let clock = world.now - world.cron().offset;
    let telling = world.api == Api::Carillon && !rules.meddles && decided(&world) <= clock;
    if let Some(wake) = world.plan(0).1.wake.filter(|_| telling) {
        world.now = wake;
        let (cron, plan) = world.plan(0);
        assert!(!plan.steps.is_empty(), "seed {seed}: {cron:#?}");
    }
}

fn happens(world: &mut World, dice: &mut Rng, rules: &Rules) {
    match dice.u8(..18) {
        0..4 => {
            let who = dice.usize(..2);
            let late = rules.late && dice.bool();
            let fault = Fault {
                dies_after: (late || dice.bool()).then(|| dice.usize(..4)),
                lost: dice.bool().then(|| dice.usize(..4)),
                late,
            };
            world.act(who, fault);
        }
        16 => {
            let who = dice.usize(..2);
            for _ in 0..4 {
                world.sees_all(who);
                world.act(who, Fault::default());
            }
        }
        17 => world.pass(pick(dice, &[1, 10, 20, 60])),
        4 | 5 => world.sees_all(dice.usize(..2)),
        6 => {
            let (who, of, steps) = (dice.usize(..2), dice.usize(..3), dice.usize(..4));
            world.sees(who, of, steps);
        }
        7 | 8 => {
            let seconds = pick(dice, &[1, 10, 59, 60, 300, 3600, 20_000]);
            world.pass(seconds);
        }
        9 | 10 => child_changes(world, dice),
        11 if rules.edits => {
            let field = pick(dice, &SETTINGS);
            let ours = ["missedRunPolicy", "jitterSeconds", "broadcastJobTemplate"];
            if world.api == Api::Carillon || !ours.contains(&field) {
                let value = setting(dice, field);
                world.set(field, value);
            }
        }
        12 if rules.reschedules => match dice.u8(..6) {
            0 => world.set(
                "timeZone",
                pick(dice, &["Asia/Tokyo", "Atlantis", "UTC"]).into(),
            ),
            1 => world.set("schedule", "0 0 31 2 *".into()),
            2 => world.set("dstPolicy", setting(dice, "dstPolicy")),
            _ => {
                let (schedule, zone, _) = pick(dice, &SCHEDULES);
                world.set("timeZone", zone.into());
                world.set("schedule", schedule.into());
            }
        },
        13 => {
            world.run_now = Some(pick(dice, &["a", "b", "c", "", "to day", OF_ANOTHER]).to_owned());
            world.changed();
        }
        14 if rules.meddles => meddle(world, dice),
        14 if rules.deletes && dice.u8(..4) == 0 => {
            world.deleting = true;
            world.changed();
        }
        14 => world.refuses = dice.bool(),
        15 if rules.others => others_act(world, dice),
        15 => world.arrives(),
        _ => world.pass(7),
    }
}

fn child_changes(world: &mut World, dice: &mut Rng) {
    let keys: Vec<_> = world.objects.keys().cloned().collect();
    if keys.is_empty() {
        return;
    }
    let key = pick(dice, &keys);
    match dice.u8(..6) {
        0 | 1 => world.change(&key, |object| object.child.deleting = true),
        2 => world.change(&key, |object| object.stuck = !object.stuck),
        _ if world.objects[&key].child.ended.is_none() => {
            let outcomes = [
                RunOutcome::Succeeded,
                RunOutcome::CompletedWithFailures,
                RunOutcome::Failed,
            ];
            world.ends(&key, outcomes[dice.usize(0..3)]);
        }
        // Its time to live is over.
        _ => world.change(&key, |object| object.child.deleting = true),
    }
}

/// Somebody writes into the status what is not so.
fn meddle(world: &mut World, dice: &mut Rng) {
    world.edited = true;
    world.causes.clear();
    let tick = world.now + SignedDuration::from_secs(dice.i64(-4000..4000));
    match dice.u8(..5) {
        0 => world.status = json!({}),
        1 => world.status["active"] = json!([]),
        2 => world.status["lastScheduleTime"] = tick.to_string().into(),
        3 => {
            let run = world.cron().run_at(tick);
            let uid = pick(dice, &[json!(null), json!(""), json!(Uid::MAX.to_string())]);
            world.status["active"] = json!([
                {"kind": "Job", "name": run.name, "uid": uid},
                {"kind": "Job", "name": run.name},
                {"kind": "Pod", "name": "p"},
            ]);
        }
        _ => world.status["missedRuns"] = json!(i64::MAX),
    }
    world.changed();
}

/// Others make objects with names that runs have or will have, and set clocks.
fn others_act(world: &mut World, dice: &mut Rng) {
    let soon = world.now + SignedDuration::from_secs(dice.i64(-60..7200));
    let next = match &world.cron().timetable {
        Ok(schedule) => schedule.next(soon).unwrap_or(soon),
        Err(_) => soon,
    };
    let name = world.cron().run_at(next).name;
    let kind = pick(dice, &ChildKind::ALL);
    let nothing = Child::default();
    match dice.u8(..6) {
        0 => world.make(kind, &name, false, nothing),
        1 => {
            // kubectl create job --from
            let by_hand = Child {
                by_hand: true,
                ..nothing
            };
            world.make(
                ChildKind::Job,
                &format!("manual-{}", dice.u8(..4)),
                true,
                by_hand,
            );
        }
        2 => {
            // kube-controller-manager, before us.
            let theirs = Child {
                scheduled: Some(next),
                ..nothing
            };
            world.make(ChildKind::Job, &name, true, theirs);
        }
        3 => world.pass(-dice.i64(0..4000)),
        _ => {
            let who = dice.usize(..2);
            world.leaders[who].skew = SignedDuration::from_secs(dice.i64(-100..100));
        }
    }
}

/// The faults stop, and time does.
fn calm(world: &mut World, seed: u64) {
    world.refuses = false;
    world.arrives();
    world.leaders[0].skew = SignedDuration::ZERO;
    world.leaders[1].skew = SignedDuration::ZERO;
    // Clocks are right again.
    for _ in 0..2000 {
        let keys: Vec<_> = world.objects.keys().cloned().collect();
        for key in keys {
            if world.objects[&key].stuck {
                world.change(&key, |object| object.stuck = false);
            }
        }
        world.all_end();
        let busy = [0, 1].map(|who| {
            world.sees_all(who);
            world.act(who, Fault::default())
        });
        if busy == [false, false] {
            let (_, plan) = world.plan(1);
            assert!(plan.steps.is_empty(), "seed {seed}: {plan:#?}");
            // Nor does it find something a moment later, unless that is what it wakes for, or a clock
            // that was set back is no longer far behind.
            let wake = plan.wake;
            let later = |wake: Timestamp| wake.duration_since(world.now).as_secs() > 1;
            if wake.is_none_or(later) && decided(world) <= world.now {
                world.pass(1);
                let (_, plan) = world.plan(1);
                assert!(plan.steps.is_empty(), "seed {seed}: {plan:#?}");
                let cron = world.cron();
                if decided(world) <= world.now - cron.offset - SignedDuration::from_secs(1) {
                    assert_eq!(plan.wake, wake, "seed {seed}: {cron:#?}");
                }
            }
            return;
        }
    }
    panic!(
        "seed {seed} never comes to rest: {:#?}\n{:#?}",
        world.plan(0).1,
        world.status
    );
}

/// Up to when everything is decided: nothing before its schedule was in force is left to decide.
fn decided(world: &World) -> Timestamp {
    let since = world.in_force.last().map(|(schedule, _)| schedule.since.0);
    let said = world::decided(world.cron());
    since.map_or(said, |since| since.max(said))
}

/// How many ticks each schedule had while it was in force.
fn ticks(world: &World) -> i64 {
    let mut count = 0;
    for (at, (schedule, before)) in world.in_force.iter().enumerate() {
        let spec = json!({
            "schedule": schedule.schedule, "timeZone": schedule.time_zone,
            "dstPolicy": schedule.dst_policy, "jobTemplate": {},
        });
        let read = CronJob::read(world.cron().meta.clone(), None, &spec, &json!({}));
        let Ok(timetable) = read.timetable else {
            continue;
        };
        let next = world.in_force.get(at + 1);
        let until = next.map(|(next, before)| next.since.0.max(*before));
        let until = until.unwrap_or_else(|| decided(world));
        let from = schedule
            .since
            .0
            .max(if at == 0 { world.created } else { *before });
        count += timetable.count(from, until, u64::MAX) as i64;
    }
    count
}

fn settled(world: &World, rules: &Rules, seed: u64) {
    let cron = world.cron();
    let held = world.objects.iter().find(|(_, object)| object.child.held);
    assert!(held.is_none(), "seed {seed}: {held:?}");
    let active = &cron.status.active;
    if world.deleting {
        return;
    }
    assert!(active.is_empty(), "seed {seed}: {active:?}");
    for (complete, keep) in [(true, cron.keep_complete), (false, cron.keep_failed)] {
        let ended = world.objects.values().filter(|object| object.ours);
        let ended = ended.filter(|o| o.child.ended.is_some_and(|e| e.succeeded() == complete));
        let kept = ended.count();
        assert!(keep.is_none_or(|keep| kept <= keep), "seed {seed}: {kept}");
    }
    let (_, plan) = world.plan(0);
    let Ok(schedule) = &cron.timetable else {
        return;
    };
    let clock = world.now - cron.offset;
    let comes = !cron.suspended && schedule.next(clock).is_some();
    assert_eq!(plan.wake.is_some(), comes, "seed {seed}: {plan:#?}");
    if rules.meddles {
        return;
    }
    let tick = |cause: &Cause| match cause {
        Cause::Tick(tick) => Some(*tick),
        Cause::Request(_) => None,
    };
    let mut runs: BTreeSet<Timestamp> = world.causes.iter().filter_map(tick).collect();
    let last = cron.status.last_schedule_time.as_ref().map(|time| time.0);
    assert!(runs.last().copied() <= last, "seed {seed}: {runs:?}");
    // Some were started by others.
    runs.extend(&world.recorded);
    if world.api == Api::Native {
        return;
    }
    let is_of_report = |request: &&String| request.len() == 1;
    if let Some(request) = world.run_now.as_ref().filter(is_of_report) {
        let ran = &cron.status.handled_run_now;
        assert!(ran.contains(request), "seed {seed}: {request}: {ran:?}");
    }
    let decided = decided(world);
    if !cron.suspended {
        let due = schedule.latest(decided, clock);
        let waits = cron.missed == carillon_api::MissedRunPolicy::Skip;
        assert!(due.is_none() || waits, "seed {seed}: {due:?} is undecided");
    }
    let ticks = ticks(world);
    if ticks > 10_000 {
        // More at once are not counted one by one.
        return;
    }
    let accounted = runs.len() as i64 + cron.status.missed_runs;
    let most = ticks + world.latecomers as i64;
    assert!(
        (ticks..=most).contains(&accounted),
        "seed {seed}: {ticks} ticks, {} runs, {} missed",
        runs.len(),
        cron.status.missed_runs
    );
}
