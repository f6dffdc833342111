//! What scenarios of BroadcastJobs are made of.

use carillon_sim::actors::{Fate, Work};

use crate::scenario::SECOND;

pub(super) use crate::kinds::broadcast_job::subject::scenario as plain;

/// `node` fails with `code`, the others succeed.
pub(super) fn fails(node: &str, on: &str, code: i32) -> Fate {
    Fate::ends(2 * SECOND, if node == on { code } else { 0 })
}

/// The first pod on node-2 hangs.
pub(super) fn hangs_first(node: &str, nth: usize) -> Fate {
    Fate {
        works: vec![if node == "node-2" && nth == 0 {
            Work::Hangs
        } else {
            Work::Ends(2 * SECOND, 0)
        }],
        ..Fate::ends(SECOND, 0)
    }
}
