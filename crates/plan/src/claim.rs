//! Which dependents are an object's: those that it controls and selects. It adopts what it selects and nobody
//! controls, and releases what it no longer selects (upstream: `controller_ref_manager.go`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::node::Labels;
use crate::plan::Step;
use crate::selector::selects;
use crate::uid::Uid;

/// A dependent, or an orphan that may become one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: Uid,
    pub(crate) labels: &'a Labels,
    pub(crate) deleting: bool,
}

/// What changes hands, by name and uid.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Claim {
    /// Orphans that it selects.
    pub(crate) adopted: Vec<(String, Uid)>,
    /// Dependents that it no longer selects.
    pub(crate) released: Vec<(String, Uid)>,
}

impl Claim {
    /// Compares what an object controls with what it selects. What is on its way out is not adopted.
    pub(crate) fn of<'a>(
        selector: &LabelSelector,
        dependents: impl Iterator<Item = Candidate<'a>>,
        orphans: impl Iterator<Item = Candidate<'a>>,
    ) -> Self {
        let is_selected = |one: &Candidate<'_>| selects(selector, one.labels);
        let id = |one: Candidate<'_>| (one.name.to_owned(), one.uid);
        let adopted = orphans.filter(|orphan| !orphan.deleting && is_selected(orphan));
        let released = dependents.filter(|dependent| !is_selected(dependent));
        Self {
            adopted: adopted.map(id).collect(),
            released: released.map(id).collect(),
        }
    }
}

/// The steps by which things change hands; none if each is whose it should be. Before anything is adopted `confirm`
/// asks whether the object is still there: it may have been deleted since, and what it had left to nobody on purpose.
pub(crate) fn steps<A>(confirm: A, adopted: Vec<A>, released: Vec<A>) -> Vec<Step<A>> {
    let confirmed = adopted.first().map(|_| confirm);
    let mut steps = vec![
        Step::needed(Vec::from_iter(confirmed)),
        Step::wanted(adopted),
        Step::wanted(released),
    ];
    steps.retain(|step| !step.actions.is_empty());
    steps
}
