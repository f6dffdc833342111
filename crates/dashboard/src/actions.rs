//! What may be done from a page.

use futures::future::BoxFuture;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cluster::Resource;

/// A button.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Of a BroadcastJob.
    Pause,
    /// Of a BroadcastJob.
    Resume,
    /// Of a BroadcastJob: its failed nodes.
    Retry,
    /// Of a CronJob.
    Suspend,
    /// Of a CronJob.
    Unsuspend,
    /// Of a CronJob.
    Trigger,
    /// Of a DaemonSet.
    RolloutPause,
    /// Of a DaemonSet.
    RolloutResume,
    /// Of a DaemonSet: to the revision before.
    Undo,
    /// Of a DaemonSet: all its pods.
    Restart,
}

impl Verb {
    /// What the API server has to allow: the verb there. A retry of a job that has ended is a new job.
    fn needs(self, ended: bool) -> &'static str {
        if self == Self::Retry && ended {
            "create"
        } else {
            "patch"
        }
    }
}

/// Something to do.
#[derive(Clone, Debug)]
pub struct Action {
    /// What.
    pub verb: Verb,
    /// To which kind of object.
    pub resource: Resource,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: another object of this name is left alone.
    pub uid: String,
    /// The generation that was looked at: nothing is done to what somebody has changed since.
    pub generation: i64,
}

/// Who carries actions out. The answer is what to tell, or why it was not done.
pub trait Act: Send + Sync {
    /// Does it.
    fn act(&self, action: Action) -> BoxFuture<'_, Result<String, String>>;
}

/// Asks the API server whether whoever looks may do something.
pub async fn is_allowed(client: &Client, action: &Action, ended: bool) -> Result<bool, String> {
    let verb = action.verb.needs(ended);
    let mut attributes = json!({
        "namespace": action.namespace, "verb": verb,
        "group": action.resource.group, "resource": action.resource.plural,
    });
    if verb == "patch" {
        attributes["name"] = action.name.as_str().into();
    }
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    let request =
        axum::http::Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .header("content-type", "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| error.to_string())?;
    let answer: Result<Value, kube::Error> = client.request(request).await;
    match answer {
        Ok(answer) => Ok(answer["status"]["allowed"] == true),
        Err(error) => Err(format!(
            "asking the API server whether it is allowed: {error}"
        )),
    }
}
