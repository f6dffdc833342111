//! What is installed: CRDs, operators, who leads, and rights.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use carillon_plan::view::doctor::lease::{self, Lease};
use carillon_plan::view::doctor::operators::{self, Installed};
use carillon_plan::view::doctor::rights::{self, Question, Row};
use carillon_plan::view::doctor::{Check, Seen, crds};
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::client::Api;
use crate::client::doctor::{CRDS, DEPLOYMENTS, LEASES, Within};
use crate::render::Screen;

/// All that the operator may do, as the chart has it.
const PERMISSIONS: &str = include_str!("../../../../charts/carillon/files/permissions.yaml");
/// Whose CRDs are ours.
const OURS: &str = ".carillon.dev";
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// Between two looks at a lease, and how long one is watched at most.
const EVERY: Duration = Duration::from_millis(500);
const MOST: i64 = 60;
/// Questions about rights side by side.
const AT_A_TIME: usize = 16;

/// What is installed.
pub(super) struct Installation {
    crds: Seen<Vec<Value>>,
    plurals: Vec<String>,
    /// Those by our chart.
    pub(super) operators: Seen<Vec<Installed>>,
    leases: Seen<Vec<Lease>>,
    /// Those that were renewed while they were watched.
    watched: Vec<(String, String)>,
    now: Timestamp,
}

impl Installation {
    pub(super) async fn read(api: &Api, screen: &mut Screen) -> Result<Self> {
        let crds = api.seen(CRDS, Within::Cluster, "", |crd| crd).await?;
        let is_ours = |crd: &Value| {
            let name = crd["metadata"]["name"].as_str();
            name.is_some_and(|name| name.ends_with(OURS))
        };
        let crds: Seen<Vec<Value>> = crds.map(|all| all.into_iter().filter(is_ours).collect());
        let plurals = api.plurals().await?;
        let selector = operators::SELECTOR;
        let deployments = api
            .seen(DEPLOYMENTS, Within::All, selector, |one| one)
            .await?;
        let operators = deployments.map(|all| operators::installed(&all));
        let mut found = Self {
            crds,
            plurals,
            operators,
            leases: Ok(Vec::new()),
            watched: Vec::new(),
            now: Timestamp::now(),
        };
        found.leases = found.find_leases(api).await?;
        found.now = Timestamp::now();
        found.watch(api, screen).await?;
        Ok(found)
    }

    async fn find_leases(&self, api: &Api) -> Result<Seen<Vec<Lease>>> {
        let noted = self.crds.iter().flatten().find_map(lease::noted);
        let operators = self.operators.as_deref().unwrap_or_default();
        let leases = api.seen(LEASES, Within::All, "", |lease| lease).await?;
        Ok(leases.map(|all| lease::find(&all, noted, operators)))
    }

    /// Watches leases that look old: clocks may differ.
    async fn watch(&mut self, api: &Api, screen: &mut Screen) -> Result<()> {
        let old = |lease: &&Lease| !lease.holder.is_empty() && !lease.is_fresh(self.now);
        let leases = self.leases.as_deref().unwrap_or_default();
        let old: Vec<Lease> = leases.iter().filter(old).cloned().collect();
        let Some(lasts) = old.iter().map(|lease| lease.lasts.clamp(1, MOST)).max() else {
            return Ok(());
        };
        screen.aside(&format!("Looking for {lasts} s whether a lease is renewed"));
        let (begun, lasts) = (Instant::now(), Duration::from_secs(lasts.unsigned_abs()));
        while begun.elapsed() < lasts && self.watched.len() < old.len() {
            tokio::time::sleep(EVERY).await;
            let Ok(now) = self.find_leases(api).await? else {
                break;
            };
            let renewed = now.iter().filter(|lease| {
                let same =
                    |old: &&Lease| (&old.namespace, &old.name) == (&lease.namespace, &lease.name);
                let old = old.iter().find(same);
                old.is_some_and(|old| old.renewed != lease.renewed && !lease.holder.is_empty())
            });
            let names = renewed.map(|lease| (lease.namespace.clone(), lease.name.clone()));
            self.watched = names.collect();
            // Somebody may have taken it over: then it is new by any clock.
            (self.leases, self.now) = (Ok(now), Timestamp::now());
        }
        Ok(())
    }

    /// Whether somebody leads; `None`: leases may not be read.
    pub(super) fn leads(&self) -> Option<bool> {
        let leases = self.leases.as_ref().ok()?;
        let without = self.operators.iter().flatten();
        let mut without = without.filter(|one| one.lease.is_none());
        let leads = lease::leads(leases, &self.watched, self.now);
        // Without leader election nothing tells.
        leads
            .then_some(true)
            .or_else(|| without.next().is_none().then_some(false))
    }

    pub(super) fn judge(&self, checks: &mut Vec<Check>) {
        let wanted: Vec<Value> = carillon_api::crds().iter().map(|crd| json!(crd)).collect();
        let of_crds = match &self.crds {
            Ok(stored) => crds::check(&wanted, stored, PROGRAM),
            Err(_) => crds::served(&wanted, &self.plurals),
        };
        checks.push(of_crds);
        let operators = &self.operators;
        checks.push(Check::of(operators::CHECK, operators, |all| {
            operators::check(all, PROGRAM)
        }));
        checks.push(Check::of(operators::RELEASES, operators, |all| {
            operators::releases(all)
        }));
        let known = operators.as_deref().unwrap_or_default();
        let nothing = self.plurals.is_empty() && known.is_empty();
        checks.push(match &self.leases {
            Ok(leases) if leases.is_empty() && nothing => {
                Check::not_made(lease::CHECK, "Carillon is not installed")
            }
            leases => Check::of(lease::CHECK, leases, |leases| {
                lease::check(leases, &self.watched, known, self.now)
            }),
        });
    }
}

/// Whether the ServiceAccounts of the operators have what they need.
pub(super) async fn rights(api: &Api, operators: &Seen<Vec<Installed>>) -> Result<Check> {
    let operators = match operators {
        Err(why) => return Ok(Check::not_made(rights::CHECK, why)),
        Ok(none) if none.is_empty() => {
            let why = "no operator by our chart: whose rights they would be is not known";
            return Ok(Check::not_made(rights::CHECK, why));
        }
        Ok(all) => all,
    };
    let rows: Vec<Row> = serde_saphyr::from_str(PERMISSIONS).context("permissions.yaml")?;
    let mut answers = Vec::new();
    for one in operators {
        let questions = rights::questions(&rows, one);
        let asked = questions.len();
        match refused(api, questions, |question| question.review(one)).await? {
            Ok(no) => answers.push((one.clone(), asked, no)),
            Err(why) => return Ok(Check::not_made(rights::CHECK, why)),
        }
    }
    Ok(rights::check(&answers))
}

/// What whoever asks may not do.
pub(super) async fn own_rights(api: &Api, namespace: Option<&str>) -> Result<Check> {
    let questions = rights::own_questions(namespace);
    let asked = questions.len();
    let no = refused(api, questions, Question::own_review).await?;
    Ok(Check::of(rights::YOURS, &no, |no| rights::own(asked, no)))
}

/// Those of some questions that are answered by no, in their order.
async fn refused(
    api: &Api,
    questions: Vec<Question>,
    review: impl Fn(&Question) -> Value,
) -> Result<Seen<Vec<Question>>> {
    let asked = questions.into_iter().map(|question| {
        let review = review(&question);
        async move { anyhow::Ok((question, api.may(&review).await?)) }
    });
    let answers: Vec<_> = stream::iter(asked)
        .buffered(AT_A_TIME)
        .try_collect()
        .await?;
    let answers = answers
        .into_iter()
        .map(|(question, may)| Ok((question, may?)));
    let answers: Seen<Vec<(Question, bool)>> = answers.collect();
    Ok(answers.map(|all| {
        let no = all.into_iter().filter(|(_, may)| !may);
        no.map(|(question, _)| question).collect()
    }))
}
