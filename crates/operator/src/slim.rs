//! What is read of the objects we watch: a few fields, in compact rows. What only one kind reads is in its folder.
//!
//! Unknown fields (managedFields above all) are skipped while parsing and never allocated.
//! Nothing here fails on odd content; what cannot be used is left out.

mod interner;
mod meta;
mod node;
mod pod;
mod time;

pub use self::interner::Interner;
pub use self::meta::{
    AllLabels, Annotations, KEPT_BYTES, Labels, NamesJob, OwnerReference, SlimMeta, Written,
};
pub use self::node::SlimNode;
pub use self::pod::SlimPod;
pub(crate) use self::pod::{ContainerState, ContainerStatus, PodStatus, Terminated};
