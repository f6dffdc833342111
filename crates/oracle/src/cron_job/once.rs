//! S7: a tick is run at most once, and only after it was promised.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::object::{self as of_cron, HOLD};
use super::schedule::Schedule;
use super::world::{Cron, Crons};
use crate::history::{History, Key, Step};
use crate::invariant::Invariant::S7;
use crate::object;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S7. At every creation of a child of a CronJob (by us, or by nobody knows whom; late requests
/// apart):
/// - for its tick, which its annotation `batch.kubernetes.io/cronjob-scheduled-timestamp` names, no
///   other child of that CronJob (by uid) was ever created by us, whatever became of it;
/// - with an annotation `carillon.dev/run-now` it is for no tick, whatever else it says: the CronJob's is or
///   was `<uid of the CronJob>/<that word>`, and no other child was ever created for that word;
/// - it was promised: in the state before, `status.active` has a reference of its kind and name;
/// - it carries the finalizer `carillon.dev/run-tracking`, and its controller is the CronJob by
///   name, kind and version;
/// - its tick is a time of the schedule in one of the specs that the CronJob has or had; in our own kind,
///   unless others edited its status, in the first one or one that it had at that time (plus `clock_skew`);
///   and its name is `<cron>-<unix minutes of the tick>`; on request it begins with `<cron>-`, and what follows are
///   no minutes.
pub fn cron_once(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    let mut created: HashMap<(&str, Cause<'_>), &Key> = HashMap::new();
    for step in &history.steps {
        if let Some((cron, child)) = crons.created(step) {
            let wrong = unmarked(cron, child).or_else(|| unpromised(cron, step));
            let wrong = wrong.or_else(|| misnamed(cron, child, &step.key, assumptions));
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S7, step, what)
            })?;
            let cause = Cause::of(child);
            let earlier = created.insert((object::uid(cron.last), cause), &step.key);
            checked.require(earlier.is_none(), || {
                let earlier = earlier.map_or(String::new(), Key::to_string);
                let what = format!(
                    "{} is the second child for {cause:?}, after {earlier}",
                    step.key
                );
                Violation::at(S7, step, what)
            })?;
        }
        crons.apply(step);
    }
    Ok(checked)
}

/// For what a child was started.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Cause<'h> {
    Tick(Timestamp),
    Request(&'h str),
}

impl<'h> Cause<'h> {
    fn of(child: &'h Value) -> Self {
        match of_cron::tick_of(child) {
            Some(tick) => Self::Tick(tick),
            None => Self::Request(of_cron::request_of(child)),
        }
    }
}

fn unmarked(cron: &Cron<'_>, child: &Value) -> Option<String> {
    if !of_cron::is_held(child) {
        return Some(format!("it does not carry {HOLD}"));
    }
    let owner = object::controller(child)?;
    let same = |field: &str| owner[field] == cron.last[field];
    let right = same("apiVersion") && same("kind") && owner["name"] == *cron.key.name;
    (!right).then(|| format!("its controller is {owner}, and it is of {}", cron.key))
}

fn unpromised(cron: &Cron<'_>, step: &Step) -> Option<String> {
    (!of_cron::is_promised(cron.last, &step.key)).then(|| {
        let active = &cron.last["status"]["active"];
        format!("it was not promised, status.active is {active}")
    })
}

fn misnamed(
    cron: &Cron<'_>,
    child: &Value,
    key: &Key,
    assumptions: &Assumptions,
) -> Option<String> {
    let Some(tick) = of_cron::tick_of(child) else {
        let request = of_cron::request_of(child);
        if request.is_empty() || !cron.requests.contains(&request) {
            return Some(format!("it has no tick, and nobody asked for {request:?}"));
        }
        let named = key.name.strip_prefix(&*cron.key.name);
        let rest = named.and_then(|rest| rest.strip_prefix('-'));
        let digits = rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        return (rest.is_none() || digits)
            .then(|| format!("its name is not {}-, and then no minutes", cron.key.name));
    };
    let name = of_cron::name_for(&cron.key.name, tick);
    if *key.name != *name {
        return Some(format!("it is for {tick} and should be named {name}"));
    }
    let any_time = !cron.counts() || cron.edited;
    let known = tick + assumptions.clock_skew;
    let first = cron.versions.first().map(|(since, _)| since.1);
    let versions = cron.versions.iter();
    let in_force =
        versions.filter(|((_, since), _)| any_time || Some(*since) == first || *since <= known);
    let mut schedules = in_force.filter_map(|(_, cron)| Schedule::of(&cron["spec"]));
    let fits = schedules.any(|schedule| schedule.matches(tick, &cron.bases));
    (!fits).then(|| format!("{tick} is no time of its schedule, nor was it of one then"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::object::{CRONS, JOBS_OF_BATCH, SCHEDULED};
    use crate::cron_job::scene::{run_name, tick};
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn promised() -> Scene {
        Scene::new().cron(json!({})).promise(5)
    }

    /// The child, with a change.
    fn with(change: impl FnOnce(&mut Value)) -> Scene {
        let mut run = promised().run(5);
        change(&mut run);
        promised().create_run(run)
    }

    #[test]
    fn a_tick_is_run_once_in_both_kinds() {
        for resource in CRONS {
            let scene = Scene::new().cron_of(resource, &json!({}));
            let checked = holds(S7, &scene.ran(5).ran(10), &strict());
            assert_eq!(checked.evaluations, 4);
        }
    }

    #[test]
    fn a_second_child_for_a_tick_is_found_though_the_first_is_gone() {
        let gone = Scene::two_runs().delete_run("kubectl", 5);
        let again = gone.promise(5).start(5);
        breaks(S7, &again, &strict(), "is the second child for Tick");
        // Another CronJob of that name has ticks of its own.
        let other = Scene::two_runs()
            .remove_cron("kubectl")
            .delete_run("gc", 5)
            .cron(json!({}))
            .edit_cron(|cron| cron["metadata"]["uid"] = json!("another"))
            .promise(5);
        let mut run = other.run(5);
        run["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        holds(S7, &other.create_run(run), &strict());
    }

    #[test]
    fn a_child_that_others_made_or_that_came_late_is_not_held_against_us() {
        let name = run_name(5);
        let by_others = promised();
        let run = by_others.run(5);
        let place = (JOBS_OF_BATCH, &*name);
        let by_others = by_others.step("kubectl", "create", place, Some(run), None);
        assert_eq!(
            cron_once(&by_others.history(), &strict())
                .unwrap()
                .evaluations,
            0
        );
        let late = Assumptions {
            late: std::sync::Arc::new(|step| step.rev == 2),
            ..strict()
        };
        let unpromised = Scene::new().cron(json!({})).start(5);
        assert_eq!(
            cron_once(&unpromised.history(), &late).unwrap().evaluations,
            0
        );
    }

    #[test]
    fn a_child_is_promised_before_it_is_created() {
        let unpromised = Scene::new().cron(json!({})).start(5);
        breaks(S7, &unpromised, &strict(), "was not promised");
        let other = Scene::new().cron(json!({})).promise(5).start(10);
        breaks(S7, &other, &strict(), "was not promised");
        let another_kind = promised().cron_status(|status| {
            status["active"][0]["kind"] = json!("BroadcastJob");
        });
        breaks(S7, &another_kind.start(5), &strict(), "was not promised");
        let taken_back = promised().cron_status(|status| status["active"] = json!([]));
        breaks(S7, &taken_back.start(5), &strict(), "was not promised");
    }

    #[test]
    fn a_child_is_held_and_has_its_owner() {
        let free = with(|run| run["metadata"]["finalizers"] = json!([]));
        breaks(S7, &free, &strict(), "does not carry");
        let other = with(|run| run["metadata"]["ownerReferences"][0]["name"] = json!("day"));
        breaks(S7, &other, &strict(), "its controller is");
    }

    #[test]
    fn a_child_is_for_a_time_of_the_schedule_and_named_for_it() {
        let set = |run: &mut Value, time: String| {
            run["metadata"]["annotations"][SCHEDULED] = json!(time);
        };
        let odd = with(|run| set(run, tick(6).to_string()));
        breaks(S7, &odd, &strict(), "should be named");
        let never = Scene::new().cron(json!({})).promise(6).start(6);
        breaks(S7, &never, &strict(), "is no time of its schedule");
        // A promise may outlive its schedule.
        let changed = promised().edit_cron(|cron| cron["spec"]["schedule"] = json!("@daily"));
        holds(S7, &changed.start(5), &strict());
        // A schedule has no past, except in batch/v1.
        for (resource, past) in [(CRONS[0], false), (CRONS[1], true)] {
            let nightly = Scene::new().cron_of(resource, &json!({"schedule": "0 3 * * *"}));
            let edited = nightly.at("00:07:00");
            let edited = edited.edit_cron(|cron| cron["spec"]["schedule"] = json!("*/5 * * * *"));
            let before = edited.clone().promise_name(&run_name(5)).start(5);
            if past {
                holds(S7, &before, &strict());
            } else {
                breaks(S7, &before, &strict(), "nor was it of one then");
            }
            holds(S7, &edited.promise(10).start(10), &strict());
        }
        let zoned = with(|run| set(run, "2026-01-01T01:05:00+01:00".to_owned()));
        holds(S7, &zoned, &strict());
    }

    #[test]
    fn an_interval_counts_from_what_was_noted() {
        let every = Scene::new().cron(json!({"schedule": "@every 7m"}));
        let created = every.edit_cron(|cron| {
            cron["metadata"]["creationTimestamp"] = json!(tick(0).to_string());
        });
        holds(S7, &created.clone().ran(7).ran(14), &strict());
        breaks(
            S7,
            &created.promise(8).start(8),
            &strict(),
            "no time of its schedule",
        );
    }

    #[test]
    fn a_run_on_request_is_asked_for_and_comes_once() {
        let asked = Scene::new().cron(json!({})).ask("a");
        let run = asked.asked_run("a");
        let created = asked.clone().create_run(run.clone());
        holds(S7, &created, &strict());
        let gone = created.remove("kubectl", (JOBS_OF_BATCH, "night-ra"));
        breaks(
            S7,
            &gone.create_run(run),
            &strict(),
            "second child for Request",
        );
        let other = asked.asked_run("b");
        let other = asked.clone().promise_name("night-rb").create_run(other);
        breaks(S7, &other, &strict(), "nobody asked for \"b\"");
        let copied = asked.clone().edit_cron(|cron| {
            let of_another = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f99/c";
            cron["metadata"]["annotations"][of_cron::RUN_NOW] = json!(of_another);
        });
        let run = copied.asked_run("c");
        let ran = copied.promise_name("night-rc").create_run(run);
        breaks(S7, &ran, &strict(), "nobody asked for \"c\"");
        let mut minutes = asked.asked_run("a");
        minutes["metadata"]["name"] = json!("night-29");
        let minutes = asked.promise_name("night-29").create_run(minutes);
        breaks(S7, &minutes, &strict(), "then no minutes");
    }
}
