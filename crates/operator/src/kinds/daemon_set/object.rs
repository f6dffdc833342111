//! DaemonSets, of carillon.dev and of apps/v1.

use std::marker::PhantomData;
use std::sync::Arc;

use carillon_plan::Written;
use carillon_plan::daemon_set::DaemonSet;
use serde::Deserialize;

use super::tables::DaemonSetRow;
use crate::gate::Kind;
use crate::slim::{KEPT_BYTES, SlimMeta};
use crate::store::watched;

/// One of the two APIs that have DaemonSets.
pub trait Side: Send + 'static {
    /// Its kind.
    const KIND: Kind;
}

/// `carillon.dev/v1alpha1`.
#[derive(Debug)]
pub struct Carillon;

/// `apps/v1`.
#[derive(Debug)]
pub struct Native;

impl Side for Carillon {
    const KIND: Kind = Kind::DaemonSet;
}

impl Side for Native {
    const KIND: Kind = Kind::NativeDaemonSet;
}

/// A DaemonSet: few, and read whole.
#[derive(Debug, Deserialize)]
#[serde(bound = "")]
pub struct SlimDaemonSet<S> {
    /// Metadata.
    #[serde(default)]
    pub metadata: SlimMeta,
    #[serde(default)]
    spec: Written,
    #[serde(default)]
    status: Written,
    #[serde(skip)]
    side: PhantomData<fn(S)>,
}

watched!(SlimDaemonSet<S> where S: Side);

impl<S: Side> SlimDaemonSet<S> {
    /// The DaemonSet as the planner reads it. Most changes are our own writes of the status: what is `known` of the
    /// object is not read again from a spec that is the same.
    pub fn daemon_set(&self, known: Option<&DaemonSetRow>) -> Option<DaemonSetRow> {
        let meta = self.metadata.meta(S::KIND.api_kind())?;
        let annotations = self.metadata.annotations.as_ref();
        let generation =
            annotations.and_then(|all| all.template_generation.as_deref()?.parse().ok());
        let status = self.status.value();
        let same = known.filter(|known| known.spec.is_same(&self.spec));
        let set = if let Some(known) = same {
            known.set.later(meta, generation, &status)
        } else {
            let set = DaemonSet::read(meta, generation, &self.spec.value(), &status);
            let template = set.template.at_most(KEPT_BYTES);
            DaemonSet { template, ..set }
        };
        Some(DaemonSetRow {
            set: Arc::new(set),
            spec: self.spec.clone().at_most(KEPT_BYTES),
        })
    }
}
