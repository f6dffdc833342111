//! All syncs of a job, from the first plan to the release of the last pod.

use jiff::SignedDuration;

use crate::cluster::Cluster;
use crate::cost::sync;

/// `--job-sync-batch-period`, as installed.
const BATCH_PERIOD: SignedDuration = SignedDuration::from_secs(1);

/// What a run cost.
pub(crate) struct Run {
    /// How many syncs there were.
    pub(crate) syncs: usize,
    /// CPU seconds of planning, verifying and digesting in all of them.
    pub(crate) seconds: f64,
}

/// Runs a job on `nodes` nodes, of whose pods up to `batch` end within each batch period.
pub(crate) fn run(nodes: usize, batch: usize) -> Run {
    let mut cluster = Cluster::new(nodes, "Always");
    let mut run = Run {
        syncs: 0,
        seconds: 0.0,
    };
    while !cluster.is_over() {
        // What is left of a plan that was bounded comes at once, the rest when the batch is full.
        loop {
            let (plan, parts) = sync(&mut cluster);
            run.syncs += 1;
            run.seconds += parts.iter().sum::<f64>() / 1e3;
            let again = plan.again;
            cluster.apply(plan);
            if !again {
                break;
            }
        }
        cluster.pass(BATCH_PERIOD);
        cluster.end_oldest(batch);
        cluster.run_all();
    }
    run
}
