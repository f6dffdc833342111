//! The real operator in a simulated cluster, under every fault, judged by the oracle.

pub mod connection;
pub mod disturbance;
pub mod process;
pub mod scenario;
pub mod small_world;
pub mod storm;
pub mod tap;
pub mod world;
