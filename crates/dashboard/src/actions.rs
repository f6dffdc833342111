//! What may be done from a page.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

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

/// Why an action was not carried out, in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The API server does not allow it to whoever looks.
    NotAllowed(String),
    /// Anything else.
    NotDone(String),
}

/// Who carries actions out, as far as whoever looks may do them. The answer is what to tell.
pub trait Act: Send + Sync {
    /// Does it.
    fn act(&self, action: Action) -> BoxFuture<'_, Result<String, Refusal>>;
}
