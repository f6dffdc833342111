//! Which lease, and its times.

use std::time::Duration;

use crate::args;

/// Which lease, and its times; see [`args::Lease`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// How long others wait after the last renewal before they take over.
    pub duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Pause between tries; each is longer by a random part of up to a fifth.
    pub retry_period: Duration,
}

impl Settings {
    /// The settings of the flags; `default_namespace` is the client's.
    pub fn new(lease: &args::Lease, default_namespace: &str) -> Self {
        Self {
            namespace: lease
                .namespace
                .clone()
                .unwrap_or_else(|| default_namespace.to_owned()),
            name: lease.name.clone(),
            duration: lease.duration,
            renew_deadline: lease.renew_deadline,
            retry_period: lease.retry_period,
        }
    }

    /// A renewal that hangs must leave time for another one.
    pub(super) fn call_timeout(&self) -> Duration {
        (self.renew_deadline / 2).min(Duration::from_secs(5))
    }

    pub(super) fn pause(&self) -> Duration {
        self.retry_period.mul_f64(1.0 + 0.2 * fastrand::f64())
    }
}
