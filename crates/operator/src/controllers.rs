//! One file per kind: gate, snapshot, plan, apply for one object at a time.

pub mod broadcast_job;
pub mod core;
