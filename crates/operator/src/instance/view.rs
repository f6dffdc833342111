//! Which kinds each controller plans from, and whether it sees them.

use std::sync::Arc;

use crate::args::Config;
use crate::controllers::Served;
use crate::gate::Kind;
use crate::kinds::SERVED;
use crate::watch;

/// The controllers that are to run, with the kinds that each plans from.
pub(super) type PlansFrom = Vec<(&'static Served, Vec<Kind>)>;

/// The watches that a controller plans from, in a namespace that it serves, or in all.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) controller: &'static str,
    pub(super) namespace: Option<Arc<str>>,
    watches: Vec<watch::Handle>,
}

impl View {
    /// Whether the controller could decide something now.
    pub(super) fn is_clear(&self) -> bool {
        let mut watches = self.watches.iter();
        watches.all(|watch| watch.is_clear_in(self.namespace.as_deref()))
    }

    pub(super) async fn synced(&self) {
        for watch in &self.watches {
            watch.synced_in(self.namespace.as_deref()).await;
        }
    }
}

/// The kinds that each controller which is to run plans from.
pub(super) fn plans_from(config: &Config) -> PlansFrom {
    let all = SERVED
        .iter()
        .map(|served| (served, (served.plans_from)(config)));
    all.filter(|(_, kinds)| !kinds.is_empty()).collect()
}

/// The kinds that some controller plans from.
pub(super) fn watched(plans_from: &PlansFrom) -> impl Iterator<Item = Kind> {
    let watched: Vec<Kind> = plans_from
        .iter()
        .flat_map(|(_, kinds)| kinds)
        .copied()
        .collect();
    Kind::ALL
        .into_iter()
        .filter(move |kind| watched.contains(kind))
}

/// The watches of these kinds.
fn of_kinds(watches: &[watch::Handle], kinds: &[Kind]) -> Vec<watch::Handle> {
    let is_of = |watch: &&watch::Handle| kinds.iter().any(|kind| kind.word() == watch.kind());
    watches.iter().filter(is_of).cloned().collect()
}

/// The watches of the kinds that a controller plans from.
pub(super) fn watches_of(
    plans_from: &PlansFrom,
    controller: &str,
    watches: &[watch::Handle],
) -> Vec<watch::Handle> {
    let mut all = plans_from.iter();
    let own = all.find(|(served, _)| served.name == controller);
    own.map_or_else(Vec::new, |(_, kinds)| of_kinds(watches, kinds))
}

/// What each of them sees, by namespace if it is to serve some only.
pub(super) fn views(
    config: &Config,
    plans_from: &PlansFrom,
    watches: &[watch::Handle],
) -> Vec<View> {
    let named = config
        .namespaces
        .iter()
        .map(|name| Some(name.as_str().into()));
    let mut namespaces: Vec<Option<Arc<str>>> = named.collect();
    if namespaces.is_empty() {
        namespaces.push(None);
    }
    let mut views = Vec::new();
    for namespace in &namespaces {
        for (served, kinds) in plans_from {
            views.push(View {
                controller: served.name,
                namespace: namespace.clone(),
                watches: of_kinds(watches, kinds),
            });
        }
    }
    views
}
