//! ControllerRevisions: of their data only a digest is kept.

use std::collections::HashSet;

use carillon_plan::daemon_set::{DataDigest, Revision};
use carillon_plan::node::Labels;
use carillon_plan::{Uid, Written};
use serde::Deserialize;

use super::tables::{CONTROLLER, KINDS};
use super::wakes::wake;
use crate::gate::Kind;
use crate::slim::{AllLabels, Interner, SlimMeta};
use crate::store::dependents::Dependent;
use crate::store::{Row, Tables, Wake, watched};
use crate::watch::{Held, Listed};

/// A ControllerRevision.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimRevision {
    /// Metadata.
    pub metadata: SlimMeta<AllLabels>,
    data: Written,
    revision: i64,
}

watched!(SlimRevision);

impl Dependent for Revision {
    fn uid(&self) -> Uid {
        self.uid
    }

    fn rv(&self) -> u64 {
        self.rv
    }

    fn set_rv(&mut self, rv: u64) {
        self.rv = rv;
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn is_deleting(&self) -> bool {
        self.deleting
    }
}

impl SlimRevision {
    /// The row.
    pub fn row(&self, strings: &mut Interner) -> Option<Revision> {
        let meta = &self.metadata;
        Some(Revision {
            uid: meta.uid()?,
            rv: meta.rv(),
            number: self.revision,
            data: self.data(),
            labels: strings.pod_labels(meta.labels.as_ref()),
            created: meta.creation_timestamp.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        })
    }

    /// What its data says.
    pub fn data(&self) -> DataDigest {
        self.data
            .text()
            .map_or_else(DataDigest::default, DataDigest::of_stored)
    }
}

impl Row for SlimRevision {
    const KIND: Kind = Kind::Revision;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(row) = self.row(&mut tables.strings) else {
            return;
        };
        let (meta, sets) = (&self.metadata, &mut tables.daemon_sets);
        let concerns = sets.revisions.enter(meta, &KINDS, row, &mut tables.strings);
        wake(sets, &meta.namespace, concerns, |_| false, wakes);
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let owner = tables.daemon_sets.revisions.leave(&self.metadata);
        wakes.extend(owner.map(|owner| Wake::soon(CONTROLLER, owner)));
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        let owners = tables.daemon_sets.revisions.sweep(namespace, listed);
        let owners = owners.into_iter();
        wakes.extend(owners.map(|owner| Wake::soon(CONTROLLER, owner)));
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        tables.daemon_sets.revisions.held(object, &KINDS)
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        tables.daemon_sets.revisions.each_held(namespace, each);
    }
}
