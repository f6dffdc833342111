//! CPU time and heap of a sync.

use std::fmt::Debug;

use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::broadcast_job::plan;
use carillon_plan::interlock::{self, Trip};
use carillon_plan::plan::Act;
use rustix::time::{ClockId, clock_gettime};

use crate::HEAP;
use crate::cluster::Cluster;

/// CPU seconds of this process so far.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Of one sync, measured several times.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    /// CPU milliseconds of plan, verify and digest, each time.
    samples: Vec<[f64; 3]>,
    /// Most heap used while planning, in bytes.
    pub(crate) heap_plan: usize,
    /// Most heap used by all of it, in bytes.
    pub(crate) heap_all: usize,
}

impl Cost {
    /// Of plans that are made, verified, and thrown away.
    pub(crate) fn of_plans<A: Act + Debug>(
        repeats: usize,
        plan: impl Fn() -> carillon_plan::plan::Plan<A>,
        verify: impl Fn(&carillon_plan::plan::Plan<A>) -> Result<(), Trip>,
    ) -> Self {
        let before = HEAP.current_usage();
        let most = || HEAP.peak_usage().saturating_sub(before);
        HEAP.reset_peak_usage();
        drop(plan());
        let heap_plan = most();
        HEAP.reset_peak_usage();
        let samples = (0..repeats).map(|_| timed(&plan, &verify).1).collect();
        Self {
            samples,
            heap_plan,
            heap_all: most(),
        }
    }

    /// Median and least of the plan.
    pub(crate) fn plan(&self) -> (f64, f64) {
        self.of(|[plan, ..]| *plan)
    }

    /// Median and least of the interlock.
    pub(crate) fn verify(&self) -> (f64, f64) {
        self.of(|[_, verify, _]| *verify)
    }

    /// Median and least of the digest.
    pub(crate) fn digest(&self) -> (f64, f64) {
        self.of(|[.., digest]| *digest)
    }

    /// Median and least of the sum.
    pub(crate) fn together(&self) -> (f64, f64) {
        self.of(|parts| parts.iter().sum())
    }

    fn of(&self, part: impl Fn(&[f64; 3]) -> f64) -> (f64, f64) {
        let mut values: Vec<f64> = self.samples.iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        (values[values.len() / 2], values[0])
    }
}

/// A plan, and CPU milliseconds of plan, verify and digest.
fn timed<A: Act + Debug>(
    plan: impl FnOnce() -> carillon_plan::plan::Plan<A>,
    verify: impl FnOnce(&carillon_plan::plan::Plan<A>) -> Result<(), Trip>,
) -> (carillon_plan::plan::Plan<A>, [f64; 3]) {
    let begin = cpu_seconds();
    let planned = plan();
    let after_plan = cpu_seconds();
    let verdict = verify(&planned);
    let after_verify = cpu_seconds();
    let digest = planned.digest();
    let after_digest = cpu_seconds();
    if let Err(trip) = verdict {
        panic!("the interlock refuses the plan: {trip}");
    }
    assert_eq!(digest.len(), 64);
    let parts = [
        after_plan - begin,
        after_verify - after_plan,
        after_digest - after_verify,
    ];
    (planned, parts.map(|seconds| seconds * 1e3))
}

/// One sync as the operator makes it: the plan, and CPU milliseconds of its parts.
pub(crate) fn sync(cluster: &mut Cluster) -> (Plan, [f64; 3]) {
    let begin = cpu_seconds();
    cluster.follow();
    let followed = (cpu_seconds() - begin) * 1e3;
    let now = cluster.now;
    cluster.snapshot(true, |snapshot| {
        let verify = |plan: &Plan| interlock::broadcast_job::verify(snapshot, plan, now);
        let (planned, [plan, verify, digest]) = timed(|| plan(snapshot, now), verify);
        (planned, [plan + followed, verify, digest])
    })
}

/// Measures the next sync, of which nothing is carried out. `kept`: with what is kept of the syncs before.
pub(crate) fn measure(cluster: &mut Cluster, kept: bool, repeats: usize) -> Cost {
    cluster.follow();
    let now = cluster.now;
    cluster.snapshot(kept, |snapshot| {
        let verify = |plan: &Plan| interlock::broadcast_job::verify(snapshot, plan, now);
        Cost::of_plans(repeats, || plan(snapshot, now), verify)
    })
}
