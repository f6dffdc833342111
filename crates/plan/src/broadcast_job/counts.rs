//! Numbers of nodes, which are added up and taken back.

use std::ops::{AddAssign, SubAssign};

/// Numbers of nodes that have been begun with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Counts {
    /// Nodes to serve.
    pub(super) desired: usize,
    /// Those of them whose node object is there.
    pub(super) present: usize,
    /// Those whose pod succeeded.
    pub(super) succeeded: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.desired += more.desired;
        self.present += more.present;
        self.succeeded += more.succeeded;
    }
}

impl SubAssign for Counts {
    fn sub_assign(&mut self, less: Self) {
        self.desired -= less.desired;
        self.present -= less.present;
        self.succeeded -= less.succeeded;
    }
}
