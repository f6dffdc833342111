//! What is assumed of nodes, containers and the API server.

use std::hash::{DefaultHasher, Hash, Hasher};

use carillon_sim::actors::{Fate, Work};
use fastrand::Rng;
use jiff::SignedDuration;

use crate::distribution::Distribution;
use crate::share::Share;

/// What is assumed. The same assumptions and seed give the same run.
#[derive(Clone, Debug)]
pub struct Assumptions {
    /// How long a container runs.
    pub duration: Distribution,
    /// From the binding of a pod until its container runs: to pull the image, to set up the network.
    pub start: Distribution,
    /// Nodes on which every attempt fails.
    pub fail: Share,
    /// Attempts that fail on any other node.
    pub flaky: Share,
    /// With which code a container that fails ends.
    pub exit_code: i32,
    /// How long the API server takes to answer.
    pub api_latency: SignedDuration,
    /// Chooses which nodes fail and what takes how long.
    pub seed: u64,
}

impl Assumptions {
    /// What becomes of the n-th pod of a place: its node, or the index of its Job. Pods of a DaemonSet never end by
    /// themselves unless they fail. Also how long its container needs.
    pub(crate) fn fate(&self, place: &str, nth: usize, ends: bool) -> (Fate, SignedDuration) {
        let mut of_place = self.random((place, "of place"));
        let mut of_pod = self.random((place, nth));
        let fails = self.fail.has(of_place.f64()) || self.flaky.has(of_pod.f64());
        let start = self.start.sample(&mut of_pod);
        let duration = self.duration.sample(&mut of_pod);
        let work = if fails {
            Work::Ends(duration, self.exit_code)
        } else if ends {
            Work::Ends(duration, 0)
        } else {
            Work::Hangs
        };
        let fate = Fate {
            start,
            works: vec![work],
            ..Fate::ends(duration, 0)
        };
        (fate, start + duration)
    }

    fn random(&self, about: impl Hash) -> Rng {
        let mut hasher = DefaultHasher::new();
        (self.seed, about).hash(&mut hasher);
        Rng::with_seed(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assumptions(fail: &str, flaky: &str) -> Assumptions {
        Assumptions {
            duration: "lognormal:30s,0.5".parse().expect("a duration"),
            start: "1s".parse().expect("a duration"),
            fail: fail.parse().expect("a share"),
            flaky: flaky.parse().expect("a share"),
            exit_code: 1,
            api_latency: SignedDuration::ZERO,
            seed: 7,
        }
    }

    fn fails(of: &Assumptions, place: &str, nth: usize) -> bool {
        matches!(of.fate(place, nth, true).0.works[..], [Work::Ends(_, 1)])
    }

    #[test]
    fn a_node_that_fails_fails_each_time_and_what_is_flaky_does_not() {
        let places: Vec<String> = (0..1000).map(|n| format!("node-{n}")).collect();
        let broken = assumptions("10%", "0%");
        let count = places
            .iter()
            .filter(|place| fails(&broken, place, 0))
            .count();
        assert!((70..130).contains(&count), "{count}");
        for place in &places {
            assert_eq!(fails(&broken, place, 0), fails(&broken, place, 1));
        }
        let flaky = assumptions("0%", "10%");
        let twice = |place: &&String| fails(&flaky, place, 0) && fails(&flaky, place, 1);
        assert!(places.iter().filter(twice).count() < 30);
    }

    #[test]
    fn the_same_seed_gives_the_same_and_another_one_something_else() {
        let (a, b) = (assumptions("0%", "0%"), assumptions("0%", "0%"));
        let other = Assumptions {
            seed: 8,
            ..a.clone()
        };
        let work = |of: &Assumptions| format!("{:?}", of.fate("node-1", 0, true).0.works);
        assert_eq!(work(&a), work(&b));
        assert_ne!(work(&a), work(&other));
    }

    #[test]
    fn a_pod_of_a_daemon_set_runs_until_it_is_stopped_unless_it_fails() {
        let of = assumptions("0%", "0%");
        assert!(matches!(of.fate("n", 0, false).0.works[..], [Work::Hangs]));
        let of = assumptions("100%", "0%");
        assert!(matches!(
            of.fate("n", 0, false).0.works[..],
            [Work::Ends(_, 1)]
        ));
    }
}
