//! When nothing goes wrong, the runs of a CronJob start when they are due. The invariants do not ask for
//! that: a run that comes late is still a run.

use carillon_proof::kinds::cron_job;
use carillon_proof::scenario::{Ends, Jump, Scenario};
use carillon_proof::world::{Outcome, started};
use carillon_proof::{crash_anywhere, kinds};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// A second is waited for what else happens; the rest is the way to the API server and back.
const PROMPT: SignedDuration = SignedDuration::from_millis(1500);

/// How long after its time each run was started.
fn delays(outcome: &Outcome) -> Vec<SignedDuration> {
    let steps = outcome.history.steps.iter();
    let steps = steps.filter(|step| started(step).is_some());
    steps
        .filter_map(|step| {
            let annotations = &step.new.as_ref()?["metadata"]["annotations"];
            let tick: Timestamp = annotations[SCHEDULED].as_str()?.parse().ok()?;
            Some(step.at.duration_since(tick))
        })
        .collect()
}

fn named(name: &str) -> Scenario {
    let mut all = kinds::scenarios().into_iter();
    all.find(|scenario| scenario.name == name)
        .expect("a scenario of that name")
}

#[test]
fn runs_start_when_they_are_due() {
    for (name, runs) in [
        ("each tick starts a job", 3),
        ("native: each tick starts a job", 3),
        (
            "runs are longer than the interval and run beside each other",
            3,
        ),
        ("runs come at intervals", 3),
        ("runs come at intervals and only in time", 3),
        ("runs come a little later than scheduled", 3),
        ("the clock is set back and shows times again", 4),
        ("the clock is set back and times count once", 2),
        ("the clock is set forward and leaves times out", 2),
        (
            "the clock is set forward and what it leaves out is run once",
            3,
        ),
    ] {
        let scenario = named(name);
        let jitter = scenario.spec["jitterSeconds"].as_i64().unwrap_or(0);
        let outcome = crash_anywhere::clean(&scenario).run(&scenario).unwrap();
        let delays = delays(&outcome);
        assert_eq!(delays.len(), runs, "{name}");
        let latest = PROMPT + SignedDuration::from_secs(jitter);
        for delay in delays {
            assert!(
                (SignedDuration::ZERO..=latest).contains(&delay),
                "{name}: {delay:#}"
            );
        }
        let missed = outcome.end.notes.get("missedRuns");
        assert!(missed.is_none_or(Value::is_null), "{name}: {missed:?}");
    }
}

#[test]
fn a_run_is_on_time_by_the_clock_that_was_set_right_long_before() {
    // Ten minutes behind at first; set right fifty minutes before the run is due.
    let behind = |at, ahead| Jump { at, ahead };
    let scenario = Scenario {
        spec: json!({"schedule": "0 1 * * *", "startingDeadlineSeconds": 120}),
        jumps: vec![behind(0, -600), behind(600, 0)],
        ends: Ends::After(SignedDuration::from_mins(70)),
        ..cron_job::scenario("a clock is set forward long before a run")
    };
    let outcome = crash_anywhere::clean(&scenario).run(&scenario).unwrap();
    let delays = delays(&outcome);
    assert_eq!(delays.len(), 1, "it was not skipped");
    let latest = PROMPT + SignedDuration::from_mins(1);
    assert!(delays[0] <= latest, "{:#}", delays[0]);
}
