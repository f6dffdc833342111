//! Pods, of whatever kind. One watch has them all, and each kind makes its own rows of them.

use std::collections::HashSet;

use carillon_api::names::LABEL_BROADCAST_JOB_UID;
use carillon_plan::Uid;

use super::SERVED;
use crate::gate::Kind;
use crate::slim::SlimPod;
use crate::store::{PodTable, Row, Tables, Wake, watched};
use crate::watch::{Held, Listed};

watched!(SlimPod as crate::protobuf::POD);

/// What each kind keeps of pods.
fn each() -> impl Iterator<Item = &'static dyn PodTable> {
    SERVED.iter().filter_map(|served| served.pods)
}

impl Row for SlimPod {
    const KIND: Kind = Kind::Pod;
    const LABEL: &'static str = LABEL_BROADCAST_JOB_UID;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        each().for_each(|table| table.enter(tables, &self, wakes));
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        each().for_each(|table| table.leave(tables, &self.metadata, wakes));
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        each().for_each(|table| table.sweep(tables, namespace, listed, wakes));
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let held = each().map(|table| table.held(tables, object));
        held.reduce(Held::and).unwrap_or(Held::LeftOut)
    }

    fn each_held(
        tables: &Tables,
        namespace: Option<&str>,
        each_row: &mut dyn FnMut(&str, Uid, u64),
    ) {
        each().for_each(|table| table.each_held(tables, namespace, each_row));
    }
}
