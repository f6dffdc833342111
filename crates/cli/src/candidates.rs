//! Names that the command line may be completed with. The cluster is asked for them.

use std::future::Future;
use std::time::Duration;

use anyhow::Result;
use carillon_plan::printable::is_harmful;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::read;
use clap_complete::CompletionCandidate;

use crate::client::{Api, Target, block_on, name_of};
use crate::two_apis::SETS;

/// Nobody waits longer for a name.
const PATIENCE: Duration = Duration::from_secs(3);

/// Names of the jobs of the namespace.
pub(crate) fn jobs() -> Vec<CompletionCandidate> {
    names(async |api| Ok(api.jobs(false).await?.iter().map(name_of).collect()))
}

/// Names of the CronJobs of the namespace.
pub(crate) fn crons() -> Vec<CompletionCandidate> {
    names(async |api| Ok(api.cron_names().await))
}

/// Names of the jobs of the namespace, and then of its CronJobs.
pub(crate) fn jobs_and_crons() -> Vec<CompletionCandidate> {
    names(async |api| {
        let mut found = names_of_jobs(&api).await;
        add(&mut found, api.cron_names().await);
        Ok(found)
    })
}

async fn names_of_jobs(api: &Api) -> Vec<String> {
    let jobs = api.jobs(false).await.unwrap_or_default();
    jobs.iter().map(name_of).collect()
}

/// Adds names of another kind: one that both have is offered once.
fn add(found: &mut Vec<String>, mut more: Vec<String>) {
    more.retain(|name| !found.contains(name));
    found.append(&mut more);
}

/// Names of the DaemonSets of both APIs.
pub(crate) fn sets() -> Vec<CompletionCandidate> {
    names(async |api| Ok(api.names_of_both(&SETS).await))
}

/// Names of the jobs of the namespace, and then of its DaemonSets.
pub(crate) fn jobs_and_sets() -> Vec<CompletionCandidate> {
    names(async |api| {
        let mut found = names_of_jobs(&api).await;
        add(&mut found, api.names_of_both(&SETS).await);
        Ok(found)
    })
}

/// Names of the jobs of the namespace, and then of its CronJobs and DaemonSets.
pub(crate) fn jobs_crons_and_sets() -> Vec<CompletionCandidate> {
    names(async |api| {
        let mut found = names_of_jobs(&api).await;
        add(&mut found, api.cron_names().await);
        add(&mut found, api.names_of_both(&SETS).await);
        Ok(found)
    })
}

/// Names of the jobs of the namespace and then of its DaemonSets, and of its CronJobs with their kind.
pub(crate) fn what_is_decided_about() -> Vec<CompletionCandidate> {
    names(async |api| {
        let mut found = names_of_jobs(&api).await;
        add(&mut found, api.names_of_both(&SETS).await);
        let crons = api.cron_names().await.into_iter();
        found.extend(crons.map(|name| format!("cronjob/{name}")));
        Ok(found)
    })
}

/// Names of the namespaces.
pub(crate) fn namespaces() -> Vec<CompletionCandidate> {
    names(async |api| Ok(api.namespaces().await?))
}

/// Names of the nodes with a result of the job named before; of all nodes where no job is.
pub(crate) fn nodes() -> Vec<CompletionCandidate> {
    names(async |api| {
        let line: Vec<String> = std::env::args().collect();
        let jobs = api.jobs(false).await.unwrap_or_default();
        let named = jobs.iter().find(|job| line.contains(&name_of(job)));
        let Some(job) = named else {
            let nodes = api.nodes().await?;
            return Ok(nodes.keys().map(ToString::to_string).collect());
        };
        let slices = api.slices(&read::job(job)).await?;
        Ok(Ledger::read(&slices).names().map(str::to_owned).collect())
    })
}

/// Asks the cluster that the line so far is about. No answer, or a late one, is no candidate: a
/// shell has no place for an error.
fn names<F>(ask: impl FnOnce(Api) -> F) -> Vec<CompletionCandidate>
where
    F: Future<Output = Result<Vec<String>>>,
{
    let asked = async {
        let api = Api::connect(&target()).await?;
        tokio::time::timeout(PATIENCE, ask(api)).await?
    };
    let mut names = block_on(asked).unwrap_or_default();
    names.retain(|name| is_offered(name));
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Whoever takes it has it in the command line: what could mislead there is not offered. No object of
/// Kubernetes is called so, but a server or a file may say otherwise.
pub(crate) fn is_offered(name: &str) -> bool {
    !name.contains(is_harmful)
}

/// The cluster that the line so far is about. It need not be a valid one yet.
fn target() -> Target {
    let mut target = Target::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let mut value = || value.clone().or_else(|| words.next());
        match flag.as_str() {
            "-n" | "--namespace" => target.namespace = value(),
            "--kubeconfig" => target.kubeconfig = value().map(Into::into),
            "--context" => target.context = value(),
            "--cluster" => target.cluster = value(),
            "--user" => target.user = value(),
            "--as" => target.as_user = value(),
            "--as-group" => target.as_groups.extend(value()),
            _ => {}
        }
    }
    target
}
