//! Subresources that are neither the object nor its status.

use serde_json::{Value, json};

use super::{Answer, State};
use crate::call::Call;
use crate::clock::seconds;
use crate::status::Status;

impl State {
    /// `pods/NAME/binding`: the scheduler's word.
    pub(super) fn bind(&mut self, call: &Call) -> Result<Answer, Status> {
        let body = call.body.as_ref();
        let node = body.and_then(|body| body["target"]["name"].as_str());
        let node = node.filter(|node| !node.is_empty());
        let node = node.ok_or_else(|| Status::new(500, "", "target.name: Required value"))?;
        let key = call.key(&call.name);
        let old = self.store.get(&key).cloned();
        let old = old.ok_or_else(|| Status::not_found("pods", &key.name))?;
        let refuse = |why: &str| Err(Status::conflict("pods/binding", &key.name, why));
        if let Some(uid) = body.and_then(|body| body["metadata"]["uid"].as_str())
            && old["metadata"]["uid"] != uid
        {
            return refuse("Precondition failed: UID in precondition");
        }
        if !old["metadata"]["deletionTimestamp"].is_null() {
            let why = format!(
                "pod {} is being deleted, cannot be assigned to a host",
                key.name
            );
            return refuse(&why);
        }
        if let Some(bound) = old["spec"]["nodeName"].as_str() {
            let why = format!("pod {} is already assigned to node \"{bound}\"", key.name);
            return refuse(&why);
        }
        if !call.dry_run() {
            let mut pod = (*old).clone();
            pod["spec"]["nodeName"] = json!(node);
            let mut conditions = pod["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            conditions.retain(|condition| condition["type"] != "PodScheduled");
            conditions.push(json!({
                "type": "PodScheduled", "status": "True",
                "lastProbeTime": Value::Null, "lastTransitionTime": seconds(self.now),
            }));
            pod["status"]["conditions"] = json!(conditions);
            self.store.put(self.now, &key, pod, &call.request());
        }
        let done = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        });
        Ok(Answer::Object(201, done.into()))
    }

    /// `namespaces/NAME/finalize`: the word of the namespace's controller.
    pub(super) fn finalize(&mut self, call: &Call) -> Result<Answer, Status> {
        let key = call.key(&call.name);
        let old = self.store.get(&key).cloned();
        let old = old.ok_or_else(|| Status::not_found("namespaces", &key.name))?;
        let finalizers = call
            .body
            .as_ref()
            .map(|body| body["spec"]["finalizers"].clone())
            .filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
        let mut object = (*old).clone();
        object["spec"] = finalizers.map_or_else(|| json!({}), |list| json!({"finalizers": list}));
        let meta = &old["metadata"];
        if object["spec"]["finalizers"].is_null()
            && meta["finalizers"].is_null()
            && !meta["deletionTimestamp"].is_null()
        {
            self.store.remove(self.now, &key, &call.request());
            return Ok(Answer::Object(200, object.into()));
        }
        if object == *old {
            return Ok(Answer::Object(200, old));
        }
        let stored = self.store.put(self.now, &key, object, &call.request());
        Ok(Answer::Object(200, stored))
    }
}
