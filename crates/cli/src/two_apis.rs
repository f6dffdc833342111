//! Kinds that carillon.dev has, and an API of Kubernetes, too.

use carillon_api::names::{GROUP, VERSION};
use carillon_api::path::Resource;
use carillon_plan::cron_job::Api as Side;
use carillon_plan::daemon_set::DaemonSet;

/// Such a kind.
pub(crate) struct TwoApis {
    /// As manifests have it.
    pub(crate) kind: &'static str,
    pub(crate) carillon: Resource,
    pub(crate) native: Resource,
}

impl TwoApis {
    const fn of_plural(kind: &'static str, group: &'static str, plural: &'static str) -> Self {
        Self {
            kind,
            carillon: Resource {
                group: GROUP,
                version: VERSION,
                plural,
            },
            native: Resource {
                group,
                version: "v1",
                plural,
            },
        }
    }

    /// That of one API.
    pub(crate) fn of(&self, side: Side) -> Resource {
        match side {
            Side::Carillon => self.carillon,
            Side::Native => self.native,
        }
    }

    /// As manifests have it.
    pub(crate) fn api_version(&self, side: Side) -> String {
        let Resource { group, version, .. } = self.of(side);
        format!("{group}/{version}")
    }

    /// As in `cronjob.batch`.
    pub(crate) fn resource(&self, side: Side) -> String {
        let kind = self.kind.to_ascii_lowercase();
        format!("{kind}.{}", self.of(side).group)
    }
}

/// CronJobs.
pub(crate) const CRONS: TwoApis = TwoApis::of_plural("CronJob", "batch", "cronjobs");
/// DaemonSets.
pub(crate) const SETS: TwoApis = TwoApis::of_plural("DaemonSet", "apps", "daemonsets");

/// Whose a DaemonSet is.
pub(crate) fn set_side(set: &DaemonSet) -> Side {
    if set.native {
        Side::Native
    } else {
        Side::Carillon
    }
}
