//! A button runs the command that a person would type, for the version of the object that is there now.

use std::sync::Arc;

use anyhow::{Result, bail};
use carillon_dashboard::actions::{Act, Action, Refusal, Verb};
use carillon_dashboard::cluster::{
    BROADCAST_JOBS, CRON_JOBS, DAEMON_SETS, NATIVE_CRON_JOBS, NATIVE_DAEMON_SETS, Resource,
};
use carillon_plan::view::broadcast_job::progress::standing;
use carillon_plan::view::doctor::Seen;
use carillon_plan::view::doctor::rights::Question;
use carillon_plan::view::read;
use clap::{Parser, Subcommand};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::client::{Api, Version, code};
use crate::names::short_name;
use crate::render::Screen;
use crate::{pause, retry, rollout, suspend, trigger};

/// How often an object that changes meanwhile is read again: the status of a job at work changes all the time.
const TRIES: usize = 30;

/// The verbs that a button may be.
#[derive(Debug, Parser)]
struct Command {
    #[command(subcommand)]
    verb: Typed,
}

#[derive(Debug, Subcommand)]
enum Typed {
    Pause(pause::Pause),
    Resume(pause::Resume),
    Retry(retry::Retry),
    Suspend(suspend::Suspend),
    Trigger(trigger::Trigger),
    Rollout(rollout::Rollout),
}

/// Carries actions out as commands.
pub(super) struct Commands {
    api: Arc<Api>,
}

impl Commands {
    /// With the connection of the pages: whatever the kubeconfig says later, it is the same cluster.
    pub(super) fn new(api: Arc<Api>) -> Self {
        Self { api }
    }
}

impl Act for Commands {
    fn act(&self, action: Action) -> BoxFuture<'_, Result<String, Refusal>> {
        let api = self.api.clone();
        let runtime = Handle::current();
        // Verbs print, and are not made to be sent between threads.
        let done = tokio::task::spawn_blocking(move || runtime.block_on(typed(&api, &action)));
        async move {
            match done.await {
                Ok(Ok(done)) => done.map_err(Refusal::NotAllowed),
                Ok(Err(error)) => Err(Refusal::NotDone(format!("{error:#}"))),
                Err(error) => Err(Refusal::NotDone(error.to_string())),
            }
        }
        .boxed()
    }
}

/// What a person would type.
fn command(action: &Action) -> Result<Vec<String>> {
    let Action { name, resource, .. } = action;
    let words: &[&str] = match (action.verb, *resource) {
        (Verb::Pause, BROADCAST_JOBS) => &["pause"],
        (Verb::Retry, BROADCAST_JOBS) => &["retry", "--failed"],
        (Verb::Suspend, CRON_JOBS | NATIVE_CRON_JOBS) => &["suspend"],
        (Verb::Resume, BROADCAST_JOBS) | (Verb::Unsuspend, CRON_JOBS | NATIVE_CRON_JOBS) => {
            &["resume"]
        }
        (Verb::Trigger, CRON_JOBS) => &["trigger"],
        (Verb::RolloutPause, DAEMON_SETS) => &["rollout", "pause"],
        (Verb::RolloutResume, DAEMON_SETS) => &["rollout", "resume"],
        (Verb::Undo, DAEMON_SETS | NATIVE_DAEMON_SETS) => &["rollout", "undo"],
        (Verb::Restart, DAEMON_SETS | NATIVE_DAEMON_SETS) => &["rollout", "restart"],
        (verb, resource) => bail!(
            "{verb:?} is nothing that can be done to {}",
            resource.name()
        ),
    };
    let words = words.iter().map(|word| (*word).to_owned());
    Ok(words
        .chain([format!("{}/{name}", short_name(*resource))])
        .collect())
}

/// Types it. `Ok(Err)`: whoever looks may not do that.
async fn typed(api: &Api, action: &Action) -> Result<Seen<String>> {
    let words = command(action)?;
    let program = std::iter::once("kubectl-carillon".to_owned());
    let typed = Command::try_parse_from(program.chain(words))?;
    let namespace = &action.namespace;
    for _ in 0..TRIES {
        let api = api.only_of(namespace, None);
        let object = stored(&api, action.resource, &action.name).await?;
        let api = api.only_of(namespace, Some(version(action, &object)?));
        if !api
            .may(&question(action, &object).own_review())
            .await?
            .unwrap_or(false)
        {
            let what = action.resource.name();
            return Ok(Err(format!("you may not change {what} in {namespace}")));
        }
        let mut screen = Screen::kept(String::new());
        match dispatch(&api, &typed.verb, &mut screen).await {
            Ok(_) => return Ok(Ok(screen.into_kept())),
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(error),
        }
    }
    bail!("{} changed {TRIES} times meanwhile: try again", action.name)
}

async fn dispatch(api: &Api, verb: &Typed, screen: &mut Screen) -> Result<u8> {
    match verb {
        Typed::Pause(args) => pause::pause(api, args, screen).await,
        Typed::Resume(args) => pause::resume(api, args, screen).await,
        Typed::Retry(args) => retry::run(api, args, screen).await,
        Typed::Suspend(args) => suspend::run(api, args, screen).await,
        Typed::Trigger(args) => trigger::run(api, args, screen).await,
        Typed::Rollout(args) => rollout::run(api, args, screen).await,
    }
}

async fn stored(api: &Api, resource: Resource, name: &str) -> Result<Value> {
    match api.object(resource.in_paths(), name).await {
        Ok(object) => Ok(object),
        Err(error) => Err(api
            .explain(error, &format!("reading {}/{name}", resource.name()))
            .await),
    }
}

/// What the API server has to allow. A retry of a job that has ended is a new job.
fn question(action: &Action, object: &Value) -> Question {
    let creates = action.verb == Verb::Retry && standing(&read::job(object).job).0.has_ended();
    Question {
        group: action.resource.group.to_owned(),
        resource: action.resource.plural.to_owned(),
        verb: if creates { "create" } else { "patch" }.to_owned(),
        namespace: Some(action.namespace.clone()),
        name: (!creates).then(|| action.name.clone()),
        why: String::new(),
    }
}

/// The version that is there, if it is still the object that was looked at.
fn version(action: &Action, object: &Value) -> Result<Version> {
    let version = Version {
        uid: action.uid.clone(),
        generation: action.generation,
        stored: text(&object["metadata"]["resourceVersion"]),
    };
    match version.differs(object) {
        Some(why) => bail!(why),
        None => Ok(version),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_conflict(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<kube::Error>().and_then(code) == Some(409))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn action(verb: Verb, resource: Resource) -> Action {
        Action {
            verb,
            resource,
            namespace: "team-a".to_owned(),
            name: "fix".to_owned(),
            uid: "u1".to_owned(),
            generation: 3,
        }
    }

    #[test]
    fn a_button_is_a_command_that_the_program_understands() {
        for (verb, resource, expected) in [
            (Verb::Pause, BROADCAST_JOBS, "pause cbj/fix"),
            (Verb::Resume, BROADCAST_JOBS, "resume cbj/fix"),
            (Verb::Retry, BROADCAST_JOBS, "retry --failed cbj/fix"),
            (Verb::Suspend, NATIVE_CRON_JOBS, "suspend cj/fix"),
            (Verb::Unsuspend, CRON_JOBS, "resume ccj/fix"),
            (Verb::Trigger, CRON_JOBS, "trigger ccj/fix"),
            (Verb::RolloutPause, DAEMON_SETS, "rollout pause cds/fix"),
            (Verb::RolloutResume, DAEMON_SETS, "rollout resume cds/fix"),
            (Verb::Undo, NATIVE_DAEMON_SETS, "rollout undo ds/fix"),
            (Verb::Restart, DAEMON_SETS, "rollout restart cds/fix"),
        ] {
            let words = command(&action(verb, resource)).unwrap();
            assert_eq!(words.join(" "), expected);
            let line = std::iter::once("kubectl-carillon".to_owned()).chain(words);
            assert!(Command::try_parse_from(line).is_ok(), "{expected}");
        }
        assert!(command(&action(Verb::Trigger, NATIVE_CRON_JOBS)).is_err());
        assert!(command(&action(Verb::Pause, CRON_JOBS)).is_err());
    }

    #[test]
    fn a_button_holds_for_the_object_that_was_looked_at() {
        let of = |uid: &str, generation: i64| {
            let object =
                json!({"metadata": {"uid": uid, "generation": generation, "resourceVersion": "9"}});
            version(&action(Verb::Pause, BROADCAST_JOBS), &object).map(|version| version.stored)
        };
        assert_eq!(of("u1", 3).unwrap(), "9");
        assert!(
            of("u2", 3)
                .unwrap_err()
                .to_string()
                .contains("another of this name")
        );
        assert!(
            of("u1", 4)
                .unwrap_err()
                .to_string()
                .contains("was changed by somebody")
        );
    }
}
