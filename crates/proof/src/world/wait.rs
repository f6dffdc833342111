//! Waiting until something has come about, or nothing changes any more.

use std::time::Duration;

use carillon_sim::Server;
use jiff::Timestamp;
use tokio::time::{sleep, timeout};

/// A run without a change for so long is over.
const QUIET: Duration = Duration::from_secs(90);

/// Waits until a condition holds, looking after every change.
pub(super) async fn until(server: &Server, holds: impl Fn() -> bool) {
    let mut changes = server.changes();
    while !holds() {
        // A change of state that is no revision is noticed a little later.
        let _ = timeout(Duration::from_secs(5), changes.changed()).await;
    }
}

/// Waits until nothing but leases has changed for a while; since when.
pub(super) async fn settle(server: &Server, most_revisions: u64) -> Timestamp {
    for _ in 0..100 {
        let (rev, _) = last_change(server);
        sleep(QUIET).await;
        let now = last_change(server).0;
        if now == rev || now > most_revisions {
            break;
        }
    }
    last_change(server).1
}

/// Revision and time of the last change, leases apart.
pub(super) fn last_change(server: &Server) -> (u64, Timestamp) {
    server.with_history(|history| {
        let lease = |resource: &str| resource.starts_with("leases.");
        let mut steps = history.steps.iter().rev();
        steps
            .find(|step| !lease(&step.key.resource))
            .map_or_else(|| (0, server.now()), |step| (step.rev, step.at))
    })
}
