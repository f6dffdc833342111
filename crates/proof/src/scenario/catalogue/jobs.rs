//! Jobs of batch/v1 that are served in the place of kube-controller-manager.

use super::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    vec![plain("a job runs four pods, two at a time")]
}

fn plain(name: &'static str) -> Scenario {
    Scenario::of_job(name)
}
