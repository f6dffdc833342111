//! What is read of the objects we watch: a few fields, in compact rows.
//!
//! Unknown fields (managedFields above all) are skipped while parsing and never allocated.
//! Nothing here fails on odd content; what cannot be used is left out.

mod broadcast_job;
mod broadcast_job_pod;
mod child;
mod cron_job;
mod interner;
mod job;
mod job_pod;
mod meta;
mod node;
mod pod;
mod slice;
mod time;

pub use self::broadcast_job::SlimBroadcastJob;
pub use self::child::SlimNativeJob;
pub use self::cron_job::{Carillon, CronJobRow, Native, Side, SlimCronJob};
pub use self::interner::Interner;
pub use self::job::SlimJob;
pub use self::meta::{
    AllLabels, Annotations, KEPT_BYTES, Labels, NamesJob, OwnerReference, SlimMeta, Written,
};
pub use self::node::SlimNode;
pub use self::pod::SlimPod;
pub use self::slice::SlimSlice;
