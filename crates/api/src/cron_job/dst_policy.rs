//! `spec.dstPolicy` of a CronJob.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens when clocks change: when they are put back a time of the schedule may come twice, when
/// they are put forward it may not come at all.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DstPolicy {
    /// A time that comes twice has two runs, one that does not come has none, as in batch/v1.
    #[default]
    AsWritten,
    /// A time that comes twice has one run, at the first of them. Those that do not come have one run
    /// together, at the first instant after the change.
    Once,
}
