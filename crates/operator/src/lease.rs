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
pub(crate) mod leadership;
mod settings;

pub use self::{
    api::Leases,
    decision::{Decision, Seen, decide},
    elector::{Elector, elect_here},
    leadership::{Candidacy, Leadership, Phase},
    settings::Settings,
};
pub use crate::clock::BootTime;

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
