//! What a run costs: who serves, the control plane, and strangers.

use anyhow::Result;
use carillon_testbed::Cluster;

use super::machine;
use super::server::Running;

/// A measurement that has begun.
pub(super) struct Meter<'a> {
    cluster: &'a Cluster,
    server: &'a Running,
    cluster_seconds: f64,
    server_seconds: f64,
    busy_seconds: f64,
}

/// What was spent since.
pub(super) struct Spent {
    /// Of the process that serves.
    pub(super) cpu_seconds: f64,
    /// Of the control plane.
    pub(super) cluster_cpu_seconds: f64,
    /// Of all else on this machine.
    pub(super) stranger_cpu_seconds: f64,
    /// Of the process that serves, since its start.
    pub(super) peak_rss_bytes: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn begin(cluster: &'a Cluster, server: &'a Running) -> Result<Self> {
        Ok(Self {
            cluster,
            server,
            cluster_seconds: machine::control_plane_seconds(cluster)?,
            server_seconds: server.usage()?.cpu_seconds,
            busy_seconds: machine::busy_seconds()?,
        })
    }

    pub(super) fn end(self) -> Result<Spent> {
        let (usage, busy_seconds) = (self.server.usage()?, machine::busy_seconds()?);
        let cluster_seconds = machine::control_plane_seconds(self.cluster)?;
        let cluster_cpu_seconds = cluster_seconds - self.cluster_seconds;
        let cpu_seconds = usage.cpu_seconds - self.server_seconds;
        Ok(Spent {
            cpu_seconds,
            cluster_cpu_seconds,
            stranger_cpu_seconds: (busy_seconds - self.busy_seconds)
                - cluster_cpu_seconds
                - cpu_seconds,
            peak_rss_bytes: usage.peak_rss_bytes,
        })
    }
}
