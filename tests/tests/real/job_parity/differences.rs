//! Differences that have a name and a reason.

use crate::parity::Difference;

/// All of them.
pub(crate) const DIFFERENCES: &[Difference] = &[];
