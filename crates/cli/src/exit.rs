//! Exit codes.

/// What was asked for was done.
pub(crate) const DONE: u8 = 0;
/// It was not: the message says why.
pub(crate) const ERROR: u8 = 1;
/// `doctor`: something is wrong. `plan`: not every node would be served. `wait`, `rollout status`, `trigger --wait`: the
/// time is over. `uninstall`: something stays.
pub(crate) const NOT_ALL: u8 = 2;
/// `wait`, `trigger --wait`: the job has failed. `rollout status`: no node moves, though one could.
pub(crate) const FAILED: u8 = 3;
/// `wait`, `rollout status`: it goes on only after a person has changed something.
pub(crate) const NEEDS_HELP: u8 = 4;
