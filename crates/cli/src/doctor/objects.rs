//! What is served: objects of ours, and those of Kubernetes that an operator serves.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use carillon_plan::cron_job::{Api as Side, ChildKind, Children};
use carillon_plan::node::Nodes;
use carillon_plan::view::cron_job::read::{Controller, StoredCron, run_of};
use carillon_plan::view::doctor::controllers::{self, Shared};
use carillon_plan::view::doctor::operators::Installed;
use carillon_plan::view::doctor::shadow::job::StoredJob;
use carillon_plan::view::doctor::subject::Subject;
use carillon_plan::view::doctor::{Check, Seen, finalizers, objects, pods, quotas, taints};
use jiff::Timestamp;
use serde_json::Value;

use super::installation::Installation;
use crate::client::cron_jobs::NATIVE_JOBS;
use crate::client::doctor::{QUOTAS, Within};
use crate::client::{Api, JOBS, PODS};
use crate::two_apis::{CRONS, SETS, TwoApis};

/// Namespace of the control plane's own pods.
const SYSTEM: &str = "kube-system";

/// All that was read of them.
pub(super) struct Objects {
    jobs: Seen<Vec<Value>>,
    crons: Seen<Vec<Value>>,
    sets: Seen<Vec<Value>>,
    /// Of apps/v1.
    pub(super) native_sets: Seen<Vec<Value>>,
    /// Of batch/v1.
    pub(super) native_crons: Seen<Vec<Value>>,
    /// Of batch/v1; empty unless it was asked what Carillon would do with them.
    pub(super) native_jobs: Seen<NativeJobs>,
    /// Objects of Kubernetes whose status two have written.
    shared: Vec<Shared>,
    /// Why those of some kind were not looked at.
    unshared: Option<String>,
}

/// Jobs of batch/v1, as far as kube-controller-manager serves them, and those that are runs of CronJobs.
#[derive(Default)]
pub(super) struct NativeJobs {
    pub(super) jobs: Vec<StoredJob>,
    runs: BTreeMap<Controller, Children>,
}

impl NativeJobs {
    fn add(&mut self, object: &Value) {
        self.jobs.extend(StoredJob::read(object));
        if let Some((owner, name, child)) = run_of(object) {
            let runs = self.runs.entry(owner).or_default();
            runs.insert((ChildKind::Job, name), child);
        }
    }

    /// Those of one namespace.
    pub(super) async fn read(api: &Api, namespace: &str) -> Result<Seen<Self>> {
        let mut found = Self::default();
        let within = Within::Namespace(namespace);
        let seen = api
            .seen(NATIVE_JOBS, within, "", |job| found.add(&job))
            .await?;
        Ok(seen.map(|_| found))
    }

    /// The runs of a CronJob of batch/v1.
    pub(super) fn runs(&self, cron: &StoredCron) -> Children {
        let runs = self.runs.get(&Controller::stored(cron));
        runs.cloned().unwrap_or_default()
    }
}

/// Objects that may still create pods, each as it is stored.
pub(super) struct Subjects {
    pub(super) all: Vec<(Subject, Value)>,
    /// Why those of some kind are not among them.
    left_out: Option<String>,
}

impl Objects {
    /// `shadow`: with what it takes to say what Carillon would do with Jobs and CronJobs of Kubernetes.
    pub(super) async fn read(api: &Api, namespace: Option<&str>, shadow: bool) -> Result<Self> {
        let within = Within::namespace(namespace);
        let native_sets = whole(api, &SETS, Side::Native, within).await?;
        let native_crons = whole(api, &CRONS, Side::Native, within).await?;
        let mut shared = Vec::new();
        for (kind, seen) in [("DaemonSet", &native_sets), ("CronJob", &native_crons)] {
            let of_kind = seen.iter().flatten();
            shared.extend(of_kind.filter_map(|object| controllers::shared(kind, object)));
        }
        let mut native_jobs = NativeJobs::default();
        let jobs = api
            .seen(NATIVE_JOBS, within, "", |job| {
                if shadow {
                    native_jobs.add(&job);
                }
                controllers::shared("Job", &job)
            })
            .await?;
        let native_jobs = jobs.as_ref().map(|_| native_jobs).map_err(String::clone);
        let unread = [
            native_sets.as_ref().err(),
            native_crons.as_ref().err(),
            jobs.as_ref().err(),
        ];
        let unshared = unread.into_iter().flatten().next().cloned();
        shared.extend(jobs.into_iter().flatten().flatten());
        Ok(Self {
            jobs: api.seen(JOBS, within, "", |job| job).await?,
            crons: whole(api, &CRONS, Side::Carillon, within).await?,
            sets: whole(api, &SETS, Side::Carillon, within).await?,
            native_sets,
            native_crons,
            native_jobs,
            shared,
            unshared,
        })
    }

    /// Whether two controllers serve one kind.
    pub(super) async fn controllers(
        &self,
        api: &Api,
        operators: &Seen<Vec<Installed>>,
    ) -> Result<Check> {
        let within = Within::Namespace(SYSTEM);
        let selector = controllers::SELECTOR;
        let manager = api.seen(PODS, within, selector, |pod| pod).await?;
        let unseen = [manager.as_ref().err(), operators.as_ref().err()];
        let unseen = unseen.into_iter().flatten().next().cloned();
        let manager = manager.unwrap_or_default();
        let operators = operators.as_deref().unwrap_or_default();
        let check = controllers::check(&self.shared, &manager, operators, Timestamp::now());
        Ok(check.without(self.unshared.clone()).without(unseen))
    }

    /// Those that may still create pods. Those of Kubernetes, too, where an operator serves them.
    pub(super) fn subjects(&self, operators: &Seen<Vec<Installed>>) -> Subjects {
        let mut all = Vec::new();
        let jobs = self.jobs.iter().flatten();
        all.extend(jobs.filter_map(|one| Some((Subject::job(one)?, one.clone()))));
        let served = operators
            .iter()
            .flatten()
            .any(|one| one.serves_native("daemonsets"));
        let native = self.native_sets.iter().flatten().filter(|_| served);
        let sets = self.sets.iter().flatten().chain(native);
        all.extend(sets.filter_map(|one| Some((Subject::set(one)?, one.clone()))));
        let unread = [self.jobs.as_ref().err(), self.sets.as_ref().err()];
        Subjects {
            all,
            left_out: unread.into_iter().flatten().next().cloned(),
        }
    }

    /// Finalizers that nobody takes off.
    pub(super) async fn finalizers(
        &self,
        api: &Api,
        namespace: Option<&str>,
        found: &Installation,
    ) -> Result<Check> {
        let Some(leads) = found.leads() else {
            let why = "whether an operator leads is not known";
            return Ok(Check::not_made(finalizers::CHECK, why));
        };
        let leftovers = match api.leftovers_if_allowed(namespace).await? {
            Ok(leftovers) => leftovers,
            Err(why) => return Ok(Check::not_made(finalizers::CHECK, why)),
        };
        Ok(finalizers::check(&leftovers, leads, &found.operators))
    }

    /// Those that wait.
    pub(super) fn waiting(&self) -> Check {
        let unread = [&self.jobs, &self.crons, &self.sets].map(|seen| seen.as_ref().err());
        let mut unread = unread.into_iter().flatten();
        let all = objects::Objects {
            jobs: self.jobs.as_deref().unwrap_or_default(),
            crons: self.crons.as_deref().unwrap_or_default(),
            sets: self.sets.as_deref().unwrap_or_default(),
        };
        let check = objects::check(all, Timestamp::now());
        check.without(unread.next().cloned())
    }
}

async fn whole(
    api: &Api,
    kind: &TwoApis,
    side: Side,
    within: Within<'_>,
) -> Result<Seen<Vec<Value>>> {
    let api_version = kind.api_version(side);
    let mark = |mut object: Value| {
        // Objects of a list do not say what they are.
        object["apiVersion"] = api_version.clone().into();
        object["kind"] = kind.kind.into();
        object
    };
    api.seen(kind.of(side), within, "", mark).await
}

/// What stands in the way of new pods: policies, quotas, taints.
pub(super) async fn judge(
    api: &Api,
    subjects: &Subjects,
    namespace: Option<&str>,
    checks: &mut Vec<Check>,
) -> Result<()> {
    let nodes = api.nodes_if_allowed().await?;
    let pods = ask_about_pods(api, &subjects.all, nodes.as_ref()).await?;
    checks.push(pods.without(subjects.left_out.clone()));
    let alone: Vec<Subject> = subjects.all.iter().map(|(one, _)| one.clone()).collect();
    let within = Within::namespace(namespace);
    let quotas = api.seen(QUOTAS, within, "", |quota| quota).await?;
    let of_quotas = Check::of(quotas::CHECK, &quotas, |all| quotas::check(all, &alone));
    checks.push(of_quotas.without(subjects.left_out.clone().filter(|_| quotas.is_ok())));
    let nodes = nodes.ok_or_else(|| "you may not list nodes".to_owned());
    let of_taints = Check::of(taints::CHECK, &nodes, |nodes| taints::check(&alone, nodes));
    checks.push(of_taints.without(subjects.left_out.clone().filter(|_| nodes.is_ok())));
    Ok(())
}

/// Whether the API server would create a pod of each.
async fn ask_about_pods(
    api: &Api,
    subjects: &[(Subject, Value)],
    nodes: Option<&Nodes>,
) -> Result<Check> {
    let some_node = nodes.and_then(|nodes| nodes.keys().next());
    let node = some_node.map_or("any", |name| &**name);
    let (mut refused, mut not_allowed) = (Vec::new(), BTreeSet::new());
    let mut asked = 0;
    for (subject, object) in subjects.iter().take(pods::MOST) {
        let pod = pods::body(subject, object, node);
        match api.would_create(&subject.namespace, &pod).await? {
            Ok(None) => asked += 1,
            Ok(Some(words)) => {
                asked += 1;
                refused.push((subject, words));
            }
            Err(why) => drop(not_allowed.insert(why)),
        }
    }
    let check = pods::check(asked, &refused);
    let left_out = match not_allowed.pop_first() {
        None if subjects.len() > pods::MOST => {
            Some(format!("the other {}", subjects.len() - pods::MOST))
        }
        why => why,
    };
    Ok(check.without(left_out))
}
