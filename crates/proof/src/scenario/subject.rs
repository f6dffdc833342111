//! What a scenario is about.

use std::fmt;

use carillon_sim::Actor;
use fastrand::Rng;
use serde_json::Value;

use super::view::View;

/// An object of a kind and a version that is served, and what its users do to it.
pub struct Subject {
    /// Its kind.
    pub kind: &'static str,
    /// Its resource.
    pub resource: &'static str,
    /// Whether it is served in the place of kube-controller-manager, whose controller of it is off.
    pub native: bool,
    /// How the operator is told to serve it.
    pub flags: &'static [&'static str],
    /// The object of a spec.
    pub manifest: fn(&Value) -> Value,
    /// Changes a field that may change; whether times are judged by a clock that is right.
    pub edit: fn(&View<'_>, &mut Rng, bool),
    /// Does harm to it at times, and says whether it did.
    pub mischief: fn(&Actor, &mut Rng) -> bool,
    /// Whether it can be paused and resumed.
    pub can_pause: bool,
    /// Leaves it as a careful administrator would, so that it comes to its end.
    pub mend: fn(&Actor),
    /// Whether what becomes of it depends on when the operator sees it.
    pub depends_on_time: bool,
}

impl Subject {
    /// Resources of Kubernetes that are served in the place of kube-controller-manager.
    pub fn served_natively(&self) -> &'static [&'static str] {
        match self.kind {
            _ if !self.native => &[],
            "Job" => &["jobs.batch"],
            "DaemonSet" => &["daemonsets.apps"],
            _ => &[],
        }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subject").field(&self.resource).finish()
    }
}
