//! What Carillon would do with objects that kube-controller-manager serves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use carillon_plan::ObjectKey;
use carillon_plan::node::Nodes;
use carillon_plan::view::cron_job::read::cron;
use carillon_plan::view::doctor::operators::Installed;
use carillon_plan::view::doctor::shadow::job::{self, StoredJob};
use carillon_plan::view::doctor::shadow::job_pods::PodsOfJobs;
use carillon_plan::view::doctor::shadow::{self, Looked, Shadow};
use carillon_plan::view::doctor::{Check, Seen};
use jiff::Timestamp;
use serde_json::Value;

use super::objects::{NativeJobs, Objects};
use crate::client::doctor::Within;
use crate::client::{Api, PODS};
use crate::two_apis::{CRONS, SETS};

/// What is said of an object once may be of this moment alone: it is read again after this.
const AGAIN: Duration = Duration::from_secs(2);

/// What was said of an object at first.
struct Said<'a> {
    shadow: Shadow,
    of: Of<'a>,
}

enum Of<'a> {
    Set(&'a Value),
    Cron(&'a Value),
    Job(&'a ObjectKey),
}

/// A first look at all objects.
#[derive(Default)]
struct Look<'a> {
    looked: Looked,
    /// Which were not looked at, and why.
    left_out: BTreeSet<String>,
    said: Vec<Said<'a>>,
}

impl<'a> Look<'a> {
    fn add(&mut self, shadow: Shadow, of: Of<'a>) {
        match of {
            Of::Set(_) => self.looked.sets += 1,
            Of::Cron(_) => self.looked.crons += 1,
            Of::Job(_) => self.looked.jobs += 1,
        }
        if !shadow.says_nothing() {
            self.said.push(Said { shadow, of });
        }
    }

    /// What was read, or that it was not.
    fn read<T>(&mut self, seen: &'a Seen<T>) -> Option<&'a T> {
        seen.as_ref()
            .map_err(|why| self.left_out.insert(why.clone()))
            .ok()
    }
}

/// `namespace`: the only one that is looked at.
pub(super) async fn check(
    api: &Api,
    objects: &Objects,
    namespace: Option<&str>,
    operators: &Seen<Vec<Installed>>,
) -> Result<Check> {
    let nodes = api.nodes_if_allowed().await?;
    let mut look = Look::default();
    let served = |look: &mut Look<'_>, plural: &str| {
        let mut all = operators.iter().flatten();
        let served = all.any(|one: &Installed| one.serves_native(plural));
        if served {
            let why = format!("{plural}, which Carillon serves already");
            look.left_out.insert(why);
        }
        served
    };
    if !served(&mut look, SETS.native.plural)
        && let Some(sets) = look.read(&objects.native_sets)
    {
        for object in sets {
            match of_set(api, object, nodes.as_ref()).await? {
                Ok(shadow) => look.add(shadow, Of::Set(object)),
                Err(why) => drop(look.left_out.insert(why)),
            }
        }
    }
    if !served(&mut look, CRONS.native.plural)
        && let Some(crons) = look.read(&objects.native_crons)
        && let Some(jobs) = look.read(&objects.native_jobs)
    {
        for object in crons {
            look.add(of_cron(object, jobs), Of::Cron(object));
        }
    }
    if !served(&mut look, "jobs")
        && let Some(found) = look.read(&objects.native_jobs)
        && !found.jobs.is_empty()
    {
        match pods(api, Within::namespace(namespace)).await? {
            Ok(pods) => {
                for stored in &found.jobs {
                    look.add(of_job(stored, &pods), Of::Job(stored.owner()));
                }
            }
            Err(why) => drop(look.left_out.insert(why)),
        }
    }
    let shadows = twice(api, look.said, nodes.as_ref()).await?;
    let left_out: Vec<String> = look.left_out.into_iter().collect();
    Ok(shadow::check(look.looked, &shadows, &left_out))
}

/// What is read a second time of a namespace: Jobs, and pods if there are Jobs to compare.
#[derive(Default)]
struct Again {
    jobs: BTreeMap<String, Option<NativeJobs>>,
    pods: BTreeMap<String, Option<PodsOfJobs>>,
}

impl Again {
    async fn jobs(&mut self, api: &Api, namespace: &str) -> Result<Option<&NativeJobs>> {
        if !self.jobs.contains_key(namespace) {
            let read = NativeJobs::read(api, namespace).await?.ok();
            self.jobs.insert(namespace.to_owned(), read);
        }
        Ok(self.jobs.get(namespace).and_then(Option::as_ref))
    }

    async fn job(&mut self, api: &Api, owner: &ObjectKey) -> Result<Option<Shadow>> {
        let namespace = owner.namespace.as_str();
        // Their Jobs first, so that no pod is missing that a status counts.
        if self.jobs(api, namespace).await?.is_none() {
            return Ok(None);
        }
        if !self.pods.contains_key(namespace) {
            let read = pods(api, Within::Namespace(namespace)).await?.ok();
            self.pods.insert(namespace.to_owned(), read);
        }
        let jobs = self.jobs.get(namespace).and_then(Option::as_ref);
        let pods = self.pods.get(namespace).and_then(Option::as_ref);
        Ok(jobs.zip(pods).and_then(|(found, pods)| {
            let mut jobs = found.jobs.iter();
            let now = jobs.find(|job| job.owner() == owner)?;
            Some(of_job(now, pods))
        }))
    }
}

/// What is said a moment later, too.
async fn twice(api: &Api, said: Vec<Said<'_>>, nodes: Option<&Nodes>) -> Result<Vec<Shadow>> {
    if said.is_empty() {
        return Ok(Vec::new());
    }
    tokio::time::sleep(AGAIN).await;
    let mut shadows = Vec::new();
    let mut read = Again::default();
    for Said { shadow, of } in said {
        let again = match of {
            Of::Set(object) => match api.again(object).await? {
                Some(now) => of_set(api, &now, nodes).await?.ok(),
                None => None,
            },
            Of::Cron(object) => match api.again(object).await? {
                Some(now) => {
                    let namespace = now["metadata"]["namespace"].as_str();
                    let jobs = read.jobs(api, namespace.unwrap_or_default()).await?;
                    jobs.map(|jobs| of_cron(&now, jobs))
                }
                None => None,
            },
            Of::Job(owner) => read.job(api, owner).await?,
        };
        shadows.push(match again {
            Some(again) => shadow.still(again),
            None => shadow.unread(),
        });
    }
    Ok(shadows)
}

async fn of_set(api: &Api, object: &Value, nodes: Option<&Nodes>) -> Result<Seen<Shadow>> {
    let Some(nodes) = nodes else {
        return Ok(Err("you may not list nodes".to_owned()));
    };
    let known = api.known(object, nodes.clone()).await?;
    let shadow = shadow::daemon_set(&known, Timestamp::now());
    Ok(shadow.ok_or_else(|| "you may not list pods and controllerrevisions".to_owned()))
}

fn of_cron(object: &Value, jobs: &NativeJobs) -> Shadow {
    let stored = cron(object);
    shadow::cron_job(&stored, &jobs.runs(&stored), Timestamp::now())
}

fn of_job(stored: &StoredJob, pods: &PodsOfJobs) -> Shadow {
    let owner = stored.owner();
    let free = pods.free(&owner.namespace);
    job::job(stored, pods.owned(owner), free, Timestamp::now())
}

async fn pods(api: &Api, within: Within<'_>) -> Result<Seen<PodsOfJobs>> {
    let mut pods = PodsOfJobs::default();
    let seen = api.seen(PODS, within, "", |pod| pods.add(&pod)).await?;
    Ok(seen.map(|_| pods))
}
