//! The real operator in a simulated cluster, under every fault, judged by the oracle.

pub mod campaign;
pub mod case;
pub mod connection;
pub mod crash_anywhere;
pub mod disturbance;
pub mod editor;
pub mod families;
pub mod fault;
pub mod late;
pub mod monkey;
pub mod process;
pub mod regressions;
pub mod replay;
pub mod scenario;
pub mod small_world;
pub mod soak;
pub mod storm;
pub mod swarm;
pub mod tap;
pub mod tenant;
pub mod wire;
pub mod world;
pub mod zoo;
