//! Seeds that have once found something. They are run before the fresh ones, and by `cargo test`.
//!
//! A seed means the same schedule only as long as the swarm draws the same from it, and the operator sends the
//! same requests. So it is a witness and no proof that a mistake stays away: each has a scenario, a small world
//! or a test of its own besides.

use crate::swarm::Swarm;

/// A seed, and what went wrong.
#[derive(Clone, Copy, Debug)]
pub struct Regression {
    /// What the seed is about.
    pub swarm: Swarm,
    /// The seed.
    pub seed: u64,
    /// What it has found.
    pub found: &'static str,
}

/// All of them, by swarm.
pub const ALL: &[Regression] = &[
    found(
        Swarm::BroadcastJobs,
        702_262,
        "a pod started while it was given up, succeeded, and was recorded as Failed",
    ),
    found(
        Swarm::BroadcastJobs,
        706_573,
        "AtMostOnce, and a second pod where the first may have run",
    ),
    found(
        Swarm::BroadcastJobs,
        707_554,
        "a creation that had waited made a second pod of an attempt that was over",
    ),
];

/// The seeds of a swarm.
pub fn of(swarm: Swarm) -> impl Iterator<Item = u64> {
    let of = ALL.iter().filter(move |known| known.swarm == swarm);
    of.map(|known| known.seed)
}

const fn found(swarm: Swarm, seed: u64, found: &'static str) -> Regression {
    Regression { swarm, seed, found }
}
