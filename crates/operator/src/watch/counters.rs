//! The metrics of one kind's loops.

use prometheus::{IntCounter, IntGauge};

use super::watched::ObjectId;
use crate::metrics::Metrics;

#[derive(Clone)]
pub(super) struct Counters {
    pub(super) kind: &'static str,
    pub(super) synced: IntGauge,
    pub(super) listed: IntCounter,
    pub(super) added: IntCounter,
    pub(super) modified: IntCounter,
    pub(super) deleted: IntCounter,
    pub(super) bookmarks: IntCounter,
    pub(super) errors: IntCounter,
    pub(super) restarts: IntCounter,
    pub(super) relists: IntCounter,
    pub(super) undecodable: IntCounter,
    pub(super) audits: Audits,
    pub(super) audit_differences: IntCounter,
}

/// Audits by how they ended.
#[derive(Clone)]
pub(super) struct Audits {
    pub(super) clean: IntCounter,
    pub(super) different: IntCounter,
    pub(super) given_up: IntCounter,
    pub(super) failed: IntCounter,
}

impl Counters {
    pub(super) fn new(kind: &'static str, metrics: &Metrics) -> Self {
        let events = |event| metrics.watch_events.with_label_values(&[kind, event]);
        let audits = |result| metrics.cache_audits.with_label_values(&[kind, result]);
        Self {
            kind,
            synced: metrics.watch_synced.with_label_values(&[kind]),
            listed: events("LISTED"),
            added: events("ADDED"),
            modified: events("MODIFIED"),
            deleted: events("DELETED"),
            bookmarks: events("BOOKMARK"),
            errors: metrics.watch_errors.with_label_values(&[kind]),
            restarts: metrics.watch_restarts.with_label_values(&[kind]),
            relists: metrics.watch_relists.with_label_values(&[kind]),
            undecodable: metrics.watch_undecodable.with_label_values(&[kind]),
            audits: Audits {
                clean: audits("clean"),
                different: audits("different"),
                given_up: audits("given_up"),
                failed: audits("failed"),
            },
            audit_differences: metrics.cache_audit_differences.with_label_values(&[kind]),
        }
    }

    pub(super) fn skipped(&self, id: &ObjectId, error: &serde_json::Error) {
        self.undecodable.inc();
        tracing::warn!(
            kind = self.kind,
            namespace = id.namespace,
            name = id.name,
            %error,
            "object skipped, it cannot be decoded"
        );
    }
}
