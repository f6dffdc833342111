//! Those who act in a cluster besides its users.

pub mod garbage_collector;
