//! One of the two namespaces of a scenario, and what is done in it.

use std::collections::BTreeSet;

use carillon_testbed::Fate;
use http::Method;
use serde_json::{Value, json};

use super::here::index_of;
use super::scenario::{Deed, JOBS, PODS, Scenario};
use super::view::facts;
use crate::parity::rounds::NO_END;
use crate::parity::stage::{LIMIT, QUIET, Stage, UNTOLD, delete_options};
use crate::parity::watched::Here;
use crate::parity::{below, merge};

/// Pods wait for their fates, where those are by order, like this.
const WAITS: &str = "testbed.carillon.dev/fate";

/// Who serves the Jobs of a namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// What their namespaces end in.
    pub(crate) suffix: &'static str,
    /// `spec.managedBy` of the Jobs.
    pub(crate) managed_by: Option<&'static str>,
}

/// What is to be done next.
enum Step {
    Fate {
        pod: String,
        uid: String,
        change: Value,
    },
    Act((Method, String, Value)),
    End,
}

impl Stage<'_> {
    /// Plays a scenario in a namespace of its own, and gives the facts that it shows.
    pub(crate) fn play(&self, scenario: &Scenario, server: Server, run: usize) -> BTreeSet<String> {
        let namespace = format!("{}-{}-{run}", scenario.name, server.suffix);
        self.namespace(&namespace);
        for (plural, object) in &scenario.before {
            self.api.create(&below(&namespace, plural), object);
        }
        let mut job = scenario.job.clone();
        if let Some(managed_by) = server.managed_by {
            job["spec"]["managedBy"] = json!(managed_by);
        }
        if !scenario.fates.is_empty() {
            let annotations = &mut job["spec"]["template"]["metadata"]["annotations"];
            annotations[WAITS] = json!("never-starts");
        }
        self.api.create(&below(&namespace, JOBS), &job);
        let mut told = BTreeSet::new();
        let mut acts = scenario.acts.iter();
        let mut next = acts.next();
        loop {
            let step = self.watched.until(&namespace, LIMIT, |here| {
                if let Some(fate) = next_fate(scenario, here, &told) {
                    return Some(fate);
                }
                match next {
                    Some((condition, deed)) => {
                        let is_due = (here.job().is_some() || here.is_gone()) && condition(here);
                        is_due.then(|| request(deed, here)).flatten().map(Step::Act)
                    }
                    None => ((scenario.until)(here) && is_at_rest(here)).then_some(Step::End),
                }
            });
            match step {
                Some(Step::Fate { pod, uid, change }) => {
                    let path = below(&namespace, &format!("{PODS}/{pod}"));
                    // It may have been deleted before it began.
                    let _ = self.api.send(Method::PATCH, &path, &change);
                    told.insert(uid);
                }
                Some(Step::Act((method, path, body))) => {
                    self.act(&namespace, &method, &path, &body);
                    next = acts.next();
                }
                Some(Step::End) => break,
                None => {
                    let done = scenario.acts.len() - acts.len() - usize::from(next.is_some());
                    let here = self.watched.here(&namespace);
                    // The other side may show the same; then it is the scenario that is wrong.
                    println!(
                        "{namespace}: not at its end within {LIMIT:?}, {done} acts done: {}",
                        here.job()
                            .map(|job| job["status"].clone())
                            .unwrap_or_default()
                    );
                    let mut facts = facts(&self.watched.here(&namespace), &namespace);
                    facts.insert(NO_END.to_owned());
                    return facts;
                }
            }
        }
        let facts = facts(&self.watched.here(&namespace), &namespace);
        self.clear(&namespace, JOBS);
        facts
    }
}

/// Whether nothing more is to be expected.
fn is_at_rest(here: &Here) -> bool {
    here.quiet() > if here.has_told() { QUIET } else { UNTOLD }
}

/// The next pod that does not know its fate yet, and the change that tells it.
fn next_fate(scenario: &Scenario, here: &Here, told: &BTreeSet<String>) -> Option<Step> {
    if scenario.fates.is_empty() {
        return None;
    }
    let text = |pod: &Value, field: &str| pod["metadata"][field].as_str().map(str::to_owned);
    let pod = here.pods().iter().find(|pod| {
        pod["metadata"]["annotations"][WAITS] == "never-starts"
            && text(pod, "uid").is_some_and(|uid| !told.contains(&uid))
    })?;
    let index = index_of(pod);
    let own = |(of, _): &&(Option<u32>, Vec<_>)| of.is_none() || *of == index;
    let (of, fates) = scenario.fates.iter().find(own)?;
    // How many were there before it: each was seen when it was created.
    let mut before = BTreeSet::new();
    for seen in here.seen("pods") {
        if seen.object["metadata"]["uid"] == pod["metadata"]["uid"] {
            break;
        }
        if of.is_none() || index_of(&seen.object) == *of {
            before.insert(seen.object["metadata"]["uid"].as_str());
        }
    }
    let fate = fates.get(before.len()).or_else(|| fates.last())?;
    Some(Step::Fate {
        pod: text(pod, "name")?,
        uid: text(pod, "uid")?,
        change: change_to(fate),
    })
}

/// What gives a pod that waits for its fate this one.
pub(crate) fn change_to(fate: &Fate) -> Value {
    let mut annotations = json!({WAITS: null});
    merge(&mut annotations, &Value::Object(fate.annotations()));
    json!({"metadata": {"annotations": annotations}})
}

/// The request of a deed. `None`: there is no such pod yet.
fn request(deed: &Deed, here: &Here) -> Option<(Method, String, Value)> {
    let job = |field: &str| -> Option<&str> { here.job()?["metadata"][field].as_str() };
    Some(match deed {
        Deed::Patch(patch) => (
            Method::PATCH,
            format!("{JOBS}/{}", job("name")?),
            patch.clone(),
        ),
        Deed::Delete(policy) => {
            let options = delete_options("propagationPolicy", *policy);
            (Method::DELETE, format!("{JOBS}/{}", job("name")?), options)
        }
        Deed::Request(method, path, body) => {
            let uid = job("uid").unwrap_or_default();
            let body = body.to_string().replace("\"UID\"", &format!("{uid:?}"));
            let body = serde_json::from_str(&body).expect("JSON");
            (method.clone(), (*path).to_owned(), body)
        }
        Deed::Pod(pick, deed) => {
            let pod = here.pods().iter().find(|pod| pick(pod))?;
            deed.request(pod)
        }
    })
}
