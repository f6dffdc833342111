//! S12: what the runs of one CronJob may cost.

use std::collections::{HashMap, HashSet};

use super::object::{self as of_cron, CRONS, JOBS_OF_BATCH};
use super::world::Crons;
use crate::history::{History, Step};
use crate::invariant::Invariant::S12;
use crate::job;
use crate::object::{self, number, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S12. Our writes of a CronJob, and of its children as such (they come, are released, are deleted), are
/// at most a base, plus so many for each run that was ever promised, for each run that it counts as
/// missed, and for each change of the CronJob by others: `writes_per_run`.
///
/// A run is promised, created, confirmed and released, its end is noted, and it is deleted.
pub fn bounded_runs(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    let mut costs: HashMap<&str, Cost<'_>> = HashMap::new();
    for step in &history.steps {
        // What it costs to serve a Job is not the cost of what has started it.
        let served = job::ownership::is_judged_here(step, assumptions) && assumptions.ours(step);
        let cron = concerned(&crons, step).filter(|_| !served);
        crons.apply(step);
        let Some(uid) = cron else { continue };
        let cost = costs.entry(uid).or_default();
        if CRONS.contains(&&*step.key.resource) {
            cost.note(step);
        }
        if !assumptions.ours(step) {
            cost.provoked += u64::from(CRONS.contains(&&*step.key.resource));
            continue;
        }
        cost.writes += 1;
        let (base, each) = assumptions.writes_per_run;
        let (runs, missed) = (cost.promised.len() as u64, cost.missed);
        let most = base + each * (runs + missed + cost.provoked);
        checked.require(cost.writes <= most, || {
            let what = format!(
                "{} writes for CronJob {uid} with {runs} runs and {missed} missed, after {} changes by others; {most} are allowed",
                cost.writes, cost.provoked
            );
            Violation::at(S12, step, what)
        })?;
    }
    Ok(checked)
}

/// Uid of the CronJob whose cost a step is.
fn concerned<'h>(crons: &Crons<'h>, step: &'h Step) -> Option<&'h str> {
    let object = step.new.as_deref().or(step.old.as_deref())?;
    let resource = &*step.key.resource;
    if CRONS.contains(&resource) {
        return Some(object::uid(object));
    }
    let as_child = resource == JOBS_OF_BATCH || of_cron::is_of_a_run(step);
    let cron = crons.of_child(object).filter(|_| as_child)?;
    Some(object::uid(cron.last))
}

#[derive(Default)]
struct Cost<'h> {
    /// Names of all children that were ever promised.
    promised: HashSet<&'h str>,
    missed: u64,
    provoked: u64,
    writes: u64,
}

impl<'h> Cost<'h> {
    fn note(&mut self, step: &'h Step) {
        let Some(cron) = step.new.as_deref() else {
            return;
        };
        let references = of_cron::references(cron).iter();
        let names = references.map(|reference| text(reference, &["name"]));
        self.promised.extend(names);
        let missed = number(cron, &["status", "missedRuns"]);
        self.missed = self.missed.max(missed.max(0) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::scene;
    use crate::scene::{Scene, breaks, holds};
    use serde_json::json;

    fn tight() -> Assumptions {
        Assumptions {
            writes_per_run: (0, 6),
            ..Assumptions::default()
        }
    }

    #[test]
    fn a_run_costs_six_writes() {
        let ran = || Scene::new().cron(json!({})).ran(5);
        let gone = ran().delete_run("carillon", 5);
        holds(S12, &gone, &tight());
        let storm = |scene: Scene, writes: i64| {
            (0..writes).fold(scene, |scene, n| scene.cron_status(|s| s["n"] = json!(n)))
        };
        // The creation of the CronJob is a change by others.
        holds(S12, &storm(gone.clone(), 6), &tight());
        breaks(
            S12,
            &storm(gone.clone(), 7),
            &tight(),
            "13 writes for CronJob",
        );
        let missed = gone.cron_status(|status| status["missedRuns"] = json!(1));
        holds(S12, &storm(missed, 11), &tight());
    }

    #[test]
    fn what_a_job_itself_costs_is_not_a_cost_of_its_cron_job() {
        let (scene, place) = scene::broadcast(&json!({}));
        let counted = |scene: Scene, n: i64| {
            let place = (place.0, &*place.1);
            scene.edit("carillon", place, |job| job["status"] = json!({"n": n}))
        };
        let many = (0..30).fold(scene, counted);
        let checked = bounded_runs(&many.history(), &tight()).unwrap();
        assert_eq!(checked.evaluations, 3);
    }
}
