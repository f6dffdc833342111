//! What to watch.

use std::time::Duration;

use carillon_api::path::Resource;

/// What to watch.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name in logs and metrics.
    pub kind: &'static str,
    /// API group; empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// The resource's name in URLs.
    pub plural: &'static str,
    /// Label selector; all objects when empty.
    pub labels: String,
    /// How often what was delivered is compared with a list; `None` means never.
    pub audit_period: Option<Duration>,
}

impl Source {
    pub(super) fn resource(&self) -> Resource {
        Resource {
            group: self.group,
            version: self.version,
            plural: self.plural,
        }
    }
}
