//! The real operator in a simulated cluster, under every fault, judged by the oracle.

pub mod small_world;
