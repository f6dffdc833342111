//! S11: of CronJobs the status is ours, and of what they started its coming, its hold and its going.

use serde_json::{Value, json};

use super::object::{self as of_cron, CHILDREN, CRONS, HOLD, JOBS_OF_BATCH};
use super::world::Crons;
use crate::history::{History, Request, Step};
use crate::invariant::Invariant::S11;
use crate::job;
use crate::object::{self, at, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};
use crate::writes::{misdirected, without};

/// S11. For every step that a request of ours made on a CronJob or a Job, and on a BroadcastJob where
/// it comes, goes, or is released:
/// - it is no `deletecollection`, and its path names the namespace of the object;
/// - of a CronJob only the status changes, and with `bodies` the write has a resourceVersion;
/// - a child is controlled by (or was started by) a CronJob of the same namespace, which for a
///   creation still exists;
/// - of a child that is there nothing is written but the removal of `carillon.dev/run-tracking`,
///   and with `bodies` that has its uid;
/// - with `bodies`: a delete has preconditions on uid and resourceVersion.
pub fn only_what_it_started(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    for step in &history.steps {
        if let Some(by) = step.by.as_deref().filter(|_| assumptions.ours(step))
            && is_judged_here(step)
            && !job::ownership::is_judged_here(step, assumptions)
        {
            let of_cron_job = CRONS.contains(&&*step.key.resource);
            let wrong = misdirected(step, by).or_else(|| {
                if of_cron_job {
                    more_than_the_status(step)
                } else {
                    not_its_child(&crons, assumptions, step).or_else(|| more_than_the_hold(step))
                }
            });
            let wrong = wrong.or_else(|| {
                let judged = assumptions.bodies;
                judged.then(|| unconditional(step, by)).flatten()
            });
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S11, step, what)
            })?;
        }
        crons.apply(step);
    }
    Ok(checked)
}

/// Whether a step is about a CronJob, or about a child as such.
pub(crate) fn is_judged_here(step: &Step) -> bool {
    let resource = &*step.key.resource;
    let begins = CHILDREN.contains(&resource) && step.old.is_none();
    CRONS.contains(&resource) || resource == JOBS_OF_BATCH || begins || of_cron::is_of_a_run(step)
}

fn more_than_the_status(step: &Step) -> Option<String> {
    let (Some(old), Some(new)) = (step.old.as_deref(), step.new.as_deref()) else {
        return Some("a CronJob is not ours to create or to delete".to_owned());
    };
    let changed = |part: &str| without(old, "")[part] != without(new, "")[part];
    let part = ["spec", "metadata"]
        .into_iter()
        .find(|part| changed(part))?;
    Some(format!("the {part} of the CronJob changed"))
}

fn not_its_child(crons: &Crons<'_>, assumptions: &Assumptions, step: &Step) -> Option<String> {
    let child = step.old.as_deref().or(step.new.as_deref())?;
    let Some(cron) = crons.of_child(child) else {
        return Some("no CronJob that ever existed controls it".to_owned());
    };
    if cron.key.namespace != step.key.namespace {
        return Some(format!("it is of {}", cron.key));
    }
    let begun = assumptions.is_created_after(step, cron.gone);
    begun.then(|| format!("{} is gone", cron.key))
}

fn more_than_the_hold(step: &Step) -> Option<String> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
    // A delete sets the times of deletion, and nothing else.
    if object::is_deleting(new) && !object::is_deleting(old) {
        return None;
    }
    if of_cron::is_held(new) && !of_cron::is_held(old) {
        return Some(format!("{HOLD} was put on a child that had none"));
    }
    (without(old, HOLD) != without(new, HOLD)).then(|| format!("more than {HOLD} changed"))
}

fn unconditional(step: &Step, by: &Request) -> Option<String> {
    let object = step.old.as_deref()?;
    let body = by.body.as_ref().unwrap_or(&Value::Null);
    let has = |path: &[&str]| !text(body, path).is_empty();
    let same_uid =
        |path: &[&str]| at(body, path).is_some_and(|uid| *uid == json!(object::uid(object)));
    let conditional = if by.verb == "delete" {
        same_uid(&["preconditions", "uid"]) && has(&["preconditions", "resourceVersion"])
    } else if CHILDREN.contains(&&*step.key.resource) {
        same_uid(&["metadata", "uid"])
    } else {
        has(&["metadata", "resourceVersion"])
    };
    (!conditional).then(|| {
        let verb = &by.verb;
        format!("the {verb} does not say which version it means: {body}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::scene::{self, NIGHT, run_name};
    use crate::scene::{Scene, breaks, holds, strict};

    fn created() -> Scene {
        Scene::new().cron(json!({})).promise(5).start(5)
    }

    #[test]
    fn a_clean_run_writes_only_what_it_started() {
        let deleted = Scene::two_runs().delete_run("carillon", 5);
        holds(S11, &deleted, &strict());
        holds(
            S11,
            &created().remove_cron("kubectl").release_run(5),
            &strict(),
        );
    }

    #[test]
    fn of_a_cron_job_only_the_status_is_written() {
        let edit = |change: fn(&mut Value)| created().edit("carillon", (CRONS[0], NIGHT), change);
        let suspended = edit(|cron| cron["spec"]["suspend"] = json!(true));
        breaks(
            S11,
            &suspended,
            &strict(),
            "the spec of the CronJob changed",
        );
        let held = edit(|cron| cron["metadata"]["finalizers"] = json!([HOLD]));
        breaks(S11, &held, &strict(), "the metadata of the CronJob changed");
        breaks(
            S11,
            &created().remove_cron("carillon"),
            &strict(),
            "not ours to create",
        );
    }

    #[test]
    fn a_child_has_a_cron_job_of_its_namespace_that_exists() {
        let start = || Scene::new().cron(json!({}));
        let mut orphan = start().run(5);
        orphan["metadata"]["ownerReferences"] = json!([]);
        breaks(
            S11,
            &start().create_run(orphan),
            &strict(),
            "no CronJob that ever existed",
        );
        let run = start().run(5);
        let gone = start().remove_cron("kubectl").create_run(run);
        breaks(S11, &gone, &strict(), "is gone");
        let elsewhere = |history: &mut History, uri: &str| {
            let last = history.steps.last_mut().unwrap();
            last.key.namespace = "other".into();
            let mut by = (**last.by.as_ref().unwrap()).clone();
            uri.clone_into(&mut by.uri);
            last.by = Some(by.into());
        };
        let mut history = created().history();
        for (uri, what) in [("", "it is of"), ("/x/namespaces/ops/jobs", "went to")] {
            elsewhere(&mut history, uri);
            let violation = only_what_it_started(&history, &strict()).unwrap_err();
            assert!(violation.what.contains(what), "{violation}");
        }
        let mut foreign = start().run(5);
        foreign["metadata"]["ownerReferences"] = json!([]);
        let place = (JOBS_OF_BATCH, "by-hand");
        let foreign = start().step("kubectl", "create", place, Some(foreign), None);
        let written = foreign.edit("carillon", place, |run| {
            run["metadata"]["labels"] = json!({});
        });
        breaks(S11, &written, &strict(), "no CronJob that ever existed");
    }

    #[test]
    fn of_a_child_only_the_hold_is_taken() {
        let name = run_name(5);
        let edit = |scene: Scene, change: fn(&mut Value)| {
            scene.edit("carillon", (JOBS_OF_BATCH, &name), change)
        };
        let relabelled = edit(created(), |run| run["metadata"]["labels"] = json!({}));
        breaks(S11, &relabelled, &strict(), "more than");
        let noted = edit(created(), |run| run["status"] = json!({"active": 1}));
        breaks(S11, &noted, &strict(), "more than");
        let held = edit(created().confirm(5).release_run(5), |run| {
            run["metadata"]["finalizers"] = json!([HOLD]);
        });
        breaks(S11, &held, &strict(), "was put on a child");
    }

    #[test]
    fn a_write_says_which_version_it_means() {
        let without_body = Assumptions {
            bodies: false,
            ..strict()
        };
        for scene in [
            created().by("carillon", "delete").delete_run("carillon", 5),
            created().by("carillon", "patch").release_run(5),
            created().by("carillon", "patch").confirm(5),
        ] {
            breaks(S11, &scene, &strict(), "does not say which version");
            holds(S11, &scene, &without_body);
        }
        let collection = created().by("carillon", "deletecollection");
        breaks(
            S11,
            &collection.delete_run("carillon", 5),
            &strict(),
            "deletecollection",
        );
    }

    #[test]
    fn a_broadcast_job_is_ours_as_a_child_and_as_a_job() {
        let (scene, place) = scene::broadcast(&json!({}));
        let place = (place.0, &*place.1);
        let counted = |scene: Scene| {
            let mut job = scene.object(place.0, place.1);
            job["status"] = json!({"desired": 0});
            let body = json!({"metadata": {"resourceVersion": "7"}});
            scene.step("carillon", "patch", place, Some(job), Some(body))
        };
        let release = |scene: Scene| {
            let mut job = scene.object(place.0, place.1);
            job["metadata"]["finalizers"] = json!([]);
            let body = json!({"metadata": {"uid": job["metadata"]["uid"]}});
            scene.step("carillon", "patch", place, Some(job), Some(body))
        };
        holds(S11, &release(counted(scene.clone())), &strict());
        let mut alone = scene.object(place.0, place.1);
        alone["metadata"]["ownerReferences"] = json!([]);
        let alone = Scene::new().step("carillon", "create", place, Some(alone), None);
        breaks(S11, &alone, &strict(), "no CronJob that ever existed");
    }
}
