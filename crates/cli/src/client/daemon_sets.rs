//! DaemonSets, of carillon.dev and of apps/v1, and what belongs to them.

use anyhow::{Result, anyhow};
use carillon_api::path::Resource;
use carillon_plan::daemon_set::DaemonSet;
use carillon_plan::node::Nodes;
use carillon_plan::view::daemon_set::known::Known;
use carillon_plan::view::daemon_set::read::{self, SetPods, SetRevisions};
use carillon_plan::view::daemon_set::resource;
use serde_json::Value;

use super::{Api, PODS, by_us, code, dry};
use crate::names::ApiName;
use crate::two_apis::{SETS, set_side};

const REVISIONS: Resource = Resource {
    group: "apps",
    version: "v1",
    plural: "controllerrevisions",
};
const JSON_PATCH: &str = "application/json-patch+json";

impl Api {
    /// A DaemonSet as stored: that of carillon.dev, or else that of apps/v1.
    pub(crate) async fn set(&self, wanted: &ApiName) -> Result<Value> {
        self.of_two(&SETS, wanted).await
    }

    /// The pods that a DaemonSet controls or would adopt, if whoever asks may list pods.
    async fn set_pods(&self, set: &DaemonSet) -> Result<Option<SetPods>> {
        let mut pods = SetPods::default();
        let add = |pod: Value| pods.add(&set.meta.owner, &pod);
        let allowed = self.each_selected(set, PODS, "pods", add).await?;
        Ok(allowed.then_some(pods))
    }

    /// Its revisions, if whoever asks may list ControllerRevisions.
    async fn set_revisions(&self, set: &DaemonSet) -> Result<Option<SetRevisions>> {
        let mut revisions = SetRevisions::default();
        let add = |revision: Value| revisions.add(&set.meta.owner, &revision);
        let what = "ControllerRevisions";
        let allowed = self.each_selected(set, REVISIONS, what, add).await?;
        Ok(allowed.then_some(revisions))
    }

    /// Hands over each object that a DaemonSet's selector selects. False: whoever asks may not list them.
    async fn each_selected(
        &self,
        set: &DaemonSet,
        of: Resource,
        what: &str,
        add: impl FnMut(Value),
    ) -> Result<bool> {
        let Some(selector) = read::selector(set) else {
            return Ok(true);
        };
        let path = of.within(&set.meta.owner.namespace);
        match self.list(path, &selector, add).await {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(403) => Ok(false),
            Err(error) => {
                let what = format!("listing the {what} of {}", set.meta.owner.name);
                Err(self.explain(error, &what).await)
            }
        }
    }

    /// A DaemonSet with what whoever asks may know of its pods and revisions.
    pub(crate) async fn known(&self, object: &Value, nodes: Nodes) -> Result<Known> {
        let stored = read::set(object);
        let pods = self.set_pods(&stored.set).await?;
        let revisions = self.set_revisions(&stored.set).await?;
        Ok(Known::new(stored, pods, revisions, nodes))
    }

    /// Applies a JSON patch that tests the generation to a DaemonSet, or only asks whether it could be.
    pub(crate) async fn patch_set(
        &self,
        set: &DaemonSet,
        dry_run: bool,
        patch: &Value,
    ) -> Result<Value> {
        let (side, name) = (set_side(set), &set.meta.owner.name);
        let object = self.path(SETS.of(side), name);
        let object = object.map(|path| dry(by_us(path), dry_run));
        let error = match self.send("PATCH", object, JSON_PATCH, Some(patch)).await {
            Ok(changed) => return Ok(changed),
            Err(error) => error,
        };
        if code(&error) == Some(422)
            && let Ok(now) = self.get(self.path(SETS.of(side), name)).await
        {
            let now = read::set(&now).set.meta;
            if (now.generation, now.owner.uid) != (set.meta.generation, set.meta.owner.uid) {
                return Err(anyhow!(
                    "DaemonSet {name} was changed by somebody else at this moment, and was left as that one wants \
                     it. Look at it, and ask again"
                ));
            }
        }
        let what = format!("changing {}/{name}", resource(set));
        Err(self.explain(error, &what).await)
    }

    /// Merges a patch into a DaemonSet, or only asks whether it could be.
    pub(crate) async fn merge_set(
        &self,
        set: &DaemonSet,
        dry_run: bool,
        patch: &Value,
    ) -> Result<Value> {
        let name = &set.meta.owner.name;
        let id = (set_side(set), name.as_str());
        match self.merge_of_two(&SETS, id, dry_run, patch).await {
            Ok(changed) => Ok(changed),
            Err(error) => {
                let what = format!("changing {}/{name}", resource(set));
                Err(self.explain(error, &what).await)
            }
        }
    }
}
