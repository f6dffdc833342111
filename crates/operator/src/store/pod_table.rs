//! What a kind keeps of pods.

use std::collections::HashSet;
use std::fmt::Debug;

use carillon_plan::Uid;

use super::key::Wake;
use super::tables::Tables;
use crate::slim::{AllLabels, SlimMeta, SlimPod};
use crate::watch::{Held, Listed};

/// The rows that one kind makes of pods. One watch has the pods of all kinds; see [`Row`](super::Row).
pub trait PodTable: Debug + Sync {
    /// Enters a pod.
    fn enter(&self, tables: &mut Tables, pod: &SlimPod, wakes: &mut Vec<Wake>);
    /// Removes it.
    fn leave(&self, tables: &mut Tables, pod: &SlimMeta<AllLabels>, wakes: &mut Vec<Wake>);
    /// Removes every row of `namespace` (all when `None`) that is not in `listed`.
    fn sweep(
        &self,
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    );
    /// What is held of a pod.
    fn held(&self, tables: &Tables, pod: &Listed) -> Held;
    /// Names every row of `namespace` (all when `None`), with its uid and resourceVersion.
    fn each_held(
        &self,
        tables: &Tables,
        namespace: Option<&str>,
        each: &mut dyn FnMut(&str, Uid, u64),
    );
}
