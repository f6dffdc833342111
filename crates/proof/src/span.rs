//! A part of a run.

use serde::{Deserialize, Serialize};

/// A time, in seconds since the run began.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Span {
    /// Its begin.
    pub from: u64,
    /// Its end.
    pub to: u64,
}
