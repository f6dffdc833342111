//! Objects of kinds that two APIs have.

use anyhow::{Result, anyhow};
use carillon_plan::cron_job::Api as Side;
use serde_json::{Value, json};

use super::{Answer, Api, Asked, MERGE, by_us, code, dry, name_of};
use crate::names::ApiName;
use crate::problem;
use crate::two_apis::TwoApis;

impl Api {
    /// An object as stored: that of carillon.dev, or else that of Kubernetes.
    pub(crate) async fn of_two(&self, kind: &TwoApis, wanted: &ApiName) -> Result<Value> {
        match self.of_two_if_any(kind, wanted).await? {
            Some(object) => Ok(object),
            None => Err(self.no_such(kind, wanted).await),
        }
    }

    /// The same, if there is one.
    pub(crate) async fn of_two_if_any(
        &self,
        kind: &TwoApis,
        wanted: &ApiName,
    ) -> Result<Option<Value>> {
        let name = &wanted.name;
        for side in wanted.sides() {
            match self.get(self.path(kind.of(*side), name)).await {
                Ok(object) => return self.as_seen(object).map(Some),
                Err(error) if code(&error) == Some(404) => {}
                // Whoever asks for any of that name need not know that there are two APIs.
                Err(error) if code(&error) == Some(403) && *side != wanted.sides()[0] => {}
                Err(error) => {
                    let what = format!("reading {}/{name}", kind.resource(*side));
                    return Err(self.explain(error, &what).await);
                }
            }
        }
        Ok(None)
    }

    /// What to say when there is none.
    pub(crate) async fn no_such(&self, kind: &TwoApis, wanted: &ApiName) -> anyhow::Error {
        let mut others = Vec::new();
        for side in wanted.sides() {
            let path = kind.of(*side).within(&self.namespace);
            match self.list(path, "", |object| name_of(&object)).await {
                Ok(names) => others.extend(names),
                Err(error) if *wanted.sides() == [*side] => {
                    let what = format!("listing {}s", kind.kind);
                    return self.explain(error, &what).await;
                }
                Err(_) => {}
            }
        }
        others.sort();
        others.dedup();
        problem::no_such(kind, wanted, &self.namespace, &others)
    }

    /// Names of the objects of both APIs.
    pub(crate) async fn names_of_both(&self, kind: &TwoApis) -> Vec<String> {
        let mut names = Vec::new();
        for side in [Side::Carillon, Side::Native] {
            let path = kind.of(side).within(&self.namespace);
            let listed = self.list(path, "", |object| name_of(&object)).await;
            names.extend(listed.unwrap_or_default());
        }
        names.sort();
        names.dedup();
        names
    }

    /// The objects of one API that a label selector selects, of the namespace or of all namespaces.
    pub(crate) async fn all_of(
        &self,
        (kind, side): (&TwoApis, Side),
        all: bool,
        selector: &str,
    ) -> Result<Asked<Vec<Value>>> {
        let path = self.collection(kind.of(side), all);
        let version = kind.api_version(side);
        // Kubernetes' own lists say once for all items what they are.
        let whole = |mut object: Value| {
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind.kind);
            object
        };
        let listed = self.list(path, selector, whole).await;
        self.asked(listed, &format!("listing {}s", kind.kind)).await
    }

    /// What to say when a kind cannot be listed as the API server does not have it.
    pub(crate) fn not_served(&self, kind: &TwoApis, side: Side) -> anyhow::Error {
        match side {
            Side::Carillon => problem::not_installed(&self.server),
            Side::Native => anyhow!("{} does not serve {}", self.server, kind.resource(side)),
        }
    }

    /// The same where whoever asks may not.
    pub(crate) fn not_allowed(&self, kind: &TwoApis, side: Side) -> anyhow::Error {
        let (resource, namespace) = (kind.resource(side), &self.namespace);
        let role = match side {
            Side::Carillon => "the ClusterRole carillon-view",
            Side::Native => "Kubernetes' role view",
        };
        anyhow!(
            "you may not list {resource} in namespace {namespace}: ask for a RoleBinding to {role}"
        )
    }

    /// Merges a patch into an object, or only asks whether it could be.
    pub(crate) async fn merge_of_two(
        &self,
        kind: &TwoApis,
        (side, name): (Side, &str),
        dry_run: bool,
        patch: &Value,
    ) -> Answer<Value> {
        let object = self.path(kind.of(side), name);
        let object = object.map(|path| dry(by_us(path), dry_run));
        self.send("PATCH", object, MERGE, Some(&self.held(patch)))
            .await
    }
}
