//! Leader election over a `coordination.k8s.io/v1` Lease.
//!
//! Every change of the lease is a POST, or a PUT that carries the resourceVersion it was decided
//! on, so two candidates cannot both win. Another holder's expiry is judged by our own monotonic
//! clock since its record last changed; clocks of other machines are never compared.
//!
//! The election runs on a thread of its own with its own connection: a busy planner cannot delay
//! a renewal. It publishes [`Leadership`], which says until when writes may be sent. Leadership is
//! for efficiency: safety comes from names, uids and resourceVersions.

mod api;

mod decision;
mod election;
mod elector;
mod leadership;

use std::time::Duration;

pub use self::{
    api::Leases,
    decision::{Decision, Seen, decide},
    elector::{Elector, elect_here},
    leadership::{Candidacy, Leadership, Phase},
};
use crate::args;
pub use crate::clock::BootTime;

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
    fn call_timeout(&self) -> Duration {
        (self.renew_deadline / 2).min(Duration::from_secs(5))
    }

    fn pause(&self) -> Duration {
        self.retry_period.mul_f64(1.0 + 0.2 * fastrand::f64())
    }
}

/// Who we are: host name and a random part, so that a restarted pod is somebody else.
pub fn identity() -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let mut random = [0_u8; 16];
    // getrandom cannot fail for 16 bytes once the machine is up; the process id is better than
    // nothing if it does.
    let read = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    if read != Ok(random.len()) {
        random[..4].copy_from_slice(&std::process::id().to_be_bytes());
    }
    format!("{host}_{:032x}", u128::from_be_bytes(random))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::coordination::v1::{Lease, LeaseSpec},
        apimachinery::pkg::apis::meta::v1::MicroTime,
    };

    use super::*;

    pub(super) fn held_by(holder: &str, renewed: i64) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(15),
                renew_time: Some(MicroTime(jiff::Timestamp::from_second(renewed).unwrap())),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[test]
    fn identities_differ() {
        assert_ne!(identity(), identity());
        assert!(identity().contains('_'));
    }
}
