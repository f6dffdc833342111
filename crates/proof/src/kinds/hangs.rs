//! Pods that hang until somebody tells them to stop.

use carillon_sim::actors::{Fate, Work};

use crate::scenario::SECOND;

/// A pod that hangs, or ends well after a second. Told to stop, every second one exits with 0; the others do not
/// listen and are killed.
pub(super) fn hangs(hangs: bool, nth: usize) -> Fate {
    Fate {
        works: vec![if hangs {
            Work::Hangs
        } else {
            Work::Ends(SECOND, 0)
        }],
        obeys: if nth.is_multiple_of(2) { Some(0) } else { None },
        ..Fate::ends(SECOND, 0)
    }
}
