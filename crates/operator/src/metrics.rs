//! Every metric of the process: name, help, labels, buckets.
//!
//! Names that upstream Kubernetes components use (`workqueue_*`, `rest_client_*`,
//! `leader_election_master_status`) keep upstream's name and buckets, so that existing dashboards
//! work. No label ever holds the name of a pod or a node.

pub(crate) mod register;
pub(crate) mod syncs;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus::{
    Encoder, GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Registry, TextEncoder,
    exponential_buckets,
};

use self::register::{counter, float_gauge, gauge, histogram, single};
use crate::kinds::broadcast_job::metrics::BroadcastJobMetrics;
use crate::kinds::cron_job::metrics::CronJobMetrics;
use crate::kinds::daemon_set::metrics::DaemonSetMetrics;
use crate::kinds::job::metrics::JobMetrics;

/// Sets gauges just before they are read; must not block.
type BeforeScrape = Box<dyn Fn(&Metrics) + Send + Sync>;

/// Every metric, built once and shared.
pub struct Metrics {
    registry: Registry,
    before_scrape: Mutex<Vec<BeforeScrape>>,

    /// `carillon_build_info{version}`, always 1.
    pub build_info: IntGaugeVec,

    /// Of BroadcastJobs.
    pub broadcast_jobs: BroadcastJobMetrics,
    /// Of CronJobs of both APIs.
    pub cron_jobs: CronJobMetrics,
    /// Of DaemonSets.
    pub daemon_sets: DaemonSetMetrics,
    /// Of Jobs of batch/v1.
    pub jobs: JobMetrics,

    /// `carillon_gate_wait_seconds{controller}`
    pub gate_wait: HistogramVec,
    /// `carillon_gate_waits_total{controller}`
    pub gate_waits: IntCounterVec,
    /// `carillon_plan_duration_seconds{controller}`
    pub plan_duration: HistogramVec,
    /// `carillon_plan_actions_total{controller,action}`
    pub plan_actions: IntCounterVec,
    /// `carillon_plans_expired_total{controller}`
    pub plans_expired: IntCounterVec,
    /// `carillon_interlock_trips_total{controller,rule}`
    pub interlock_trips: IntCounterVec,
    /// `carillon_panics_total{controller}`
    pub panics: IntCounterVec,

    /// `carillon_store_rows{kind}`
    pub store_rows: IntGaugeVec,
    /// `carillon_store_bytes{kind}`
    pub store_bytes: IntGaugeVec,
    /// `carillon_remembered_objects{controller,of}`
    pub remembered_objects: IntGaugeVec,
    /// `carillon_watch_synced{kind}`
    pub watch_synced: IntGaugeVec,
    /// `carillon_watch_silence_seconds{kind}`
    pub watch_silence: GaugeVec,
    /// `carillon_watch_events_total{kind,type}`
    pub watch_events: IntCounterVec,
    /// `carillon_watch_errors_total{kind}`
    pub watch_errors: IntCounterVec,
    /// `carillon_watch_restarts_total{kind}`
    pub watch_restarts: IntCounterVec,
    /// `carillon_watch_relists_total{kind}`
    pub watch_relists: IntCounterVec,
    /// `carillon_watch_undecodable_total{kind}`
    pub watch_undecodable: IntCounterVec,
    /// `carillon_cache_audits_total{kind,result}`
    pub cache_audits: IntCounterVec,
    /// `carillon_cache_audit_differences_total{kind}`
    pub cache_audit_differences: IntCounterVec,

    /// `carillon_events_total{type}`
    pub events: IntCounterVec,
    /// `carillon_events_dropped_total`
    pub events_dropped: IntCounter,
    /// `carillon_api_requests_total{verb,resource,code}`
    pub api_requests: IntCounterVec,

    /// `rest_client_requests_total{code,method}`
    pub rest_client_requests: IntCounterVec,
    /// `rest_client_request_duration_seconds{verb}`
    pub rest_client_request_duration: HistogramVec,
    /// `leader_election_master_status{name}`
    pub leader: IntGaugeVec,
    /// `workqueue_*{name}`
    pub workqueue: WorkqueueMetrics,
}

/// The metrics of every work queue, with client-go's names and buckets; label `name`.
pub struct WorkqueueMetrics {
    /// `workqueue_depth`
    pub depth: IntGaugeVec,
    /// `workqueue_adds_total`
    pub adds: IntCounterVec,
    /// `workqueue_queue_duration_seconds`
    pub queue_duration: HistogramVec,
    /// `workqueue_work_duration_seconds`
    pub work_duration: HistogramVec,
    /// `workqueue_unfinished_work_seconds`
    pub unfinished_work: GaugeVec,
    /// `workqueue_longest_running_processor_seconds`
    pub longest_running_processor: GaugeVec,
    /// `workqueue_retries_total`
    pub retries: IntCounterVec,
}

impl Metrics {
    /// Registers every metric, and creates the series that alerts rely on at zero.
    ///
    /// # Errors
    /// When two metrics have the same name, which the tests rule out.
    pub fn new() -> Result<Arc<Self>, prometheus::Error> {
        let r = &Registry::new();
        // 10 µs × 4ⁿ, up to 2.6 s: plan is pure, slower than that is a defect to be seen.
        let plan = exponential_buckets(0.00001, 4.0, 10)?;
        // client-go's workqueue buckets: 10 ns × 10ⁿ.
        let work = exponential_buckets(10e-9, 10.0, 12)?;
        // client-go's request latency buckets.
        let request = vec![
            0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 45.0, 60.0,
        ];

        #[rustfmt::skip]
        let metrics = Self {
            build_info: gauge(r, "carillon_build_info", "Version that is running; always 1.", &["version"])?,

            broadcast_jobs: BroadcastJobMetrics::new(r)?,
            cron_jobs: CronJobMetrics::new(r)?,
            daemon_sets: DaemonSetMetrics::new(r)?,
            jobs: JobMetrics::new(r)?,

            gate_wait: histogram(r, "carillon_gate_wait_seconds", "Seconds a key waited until the caches showed its own writes.", &["controller"], syncs::buckets()?)?,
            gate_waits: counter(r, "carillon_gate_waits_total", "Times a key had to wait for the caches.", &["controller"])?,
            plan_duration: histogram(r, "carillon_plan_duration_seconds", "Seconds to compute one plan.", &["controller"], plan)?,
            plan_actions: counter(r, "carillon_plan_actions_total", "Actions planned, by kind of action.", &["controller", "action"])?,
            plans_expired: counter(r, "carillon_plans_expired_total", "Plans that grew too old before anything was created: requests take long, or wait long for their turn.", &["controller"])?,
            interlock_trips: counter(r, "carillon_interlock_trips_total", "Plans that were refused before anything of them was done; each is a bug to report.", &["controller", "rule"])?,
            panics: counter(r, "carillon_panics_total", "Panics caught while a key was processed; each is a bug to report.", &["controller"])?,

            store_rows: gauge(r, "carillon_store_rows", "Objects held in the cache.", &["kind"])?,
            store_bytes: gauge(r, "carillon_store_bytes", "Bytes the cache holds for its objects.", &["kind"])?,
            remembered_objects: gauge(r, "carillon_remembered_objects", "Objects of which a controller remembers something besides the cache.", &["controller", "of"])?,
            watch_synced: gauge(r, "carillon_watch_synced", "1 when the cache of a kind has been filled.", &["kind"])?,
            watch_silence: float_gauge(r, "carillon_watch_silence_seconds", "Seconds since a watch has last told anything; a healthy one does about once a minute.", &["kind"])?,
            watch_events: counter(r, "carillon_watch_events_total", "Watch events received; LISTED counts the objects of lists.", &["kind", "type"])?,
            watch_errors: counter(r, "carillon_watch_errors_total", "Lists and watches that failed.", &["kind"])?,
            watch_restarts: counter(r, "carillon_watch_restarts_total", "Watches opened after the first one; one every 5 to 10 minutes is normal.", &["kind"])?,
            watch_relists: counter(r, "carillon_watch_relists_total", "Full lists read after the first one.", &["kind"])?,
            watch_undecodable: counter(r, "carillon_watch_undecodable_total", "Objects skipped because they could not be decoded; the log names them.", &["kind"])?,
            cache_audits: counter(r, "carillon_cache_audits_total", "Comparisons of the cache with a list of metadata, by result.", &["kind", "result"])?,
            cache_audit_differences: counter(r, "carillon_cache_audit_differences_total", "Objects that the cache held otherwise than they were: a watch lost an event.", &["kind"])?,

            events: counter(r, "carillon_events_total", "Events written, by type.", &["type"])?,
            events_dropped: single(r, "carillon_events_dropped_total", "Events dropped by the rate limit, a full queue or a failed write.")?,
            api_requests: counter(r, "carillon_api_requests_total", "API requests by what they were for; code is <error> when no response came.", &["verb", "resource", "code"])?,

            rest_client_requests: counter(r, "rest_client_requests_total", "API requests by method and status code.", &["code", "method"])?,
            rest_client_request_duration: histogram(r, "rest_client_request_duration_seconds", "Seconds until the response headers arrived, by verb.", &["verb"], request)?,
            leader: gauge(r, "leader_election_master_status", "1 while this process holds the lease.", &["name"])?,
            workqueue: WorkqueueMetrics {
                depth: gauge(r, "workqueue_depth", "Keys that wait to be processed.", &["name"])?,
                adds: counter(r, "workqueue_adds_total", "Keys added.", &["name"])?,
                queue_duration: histogram(r, "workqueue_queue_duration_seconds", "Seconds a key waited in the queue.", &["name"], work.clone())?,
                work_duration: histogram(r, "workqueue_work_duration_seconds", "Seconds a key took to process.", &["name"], work)?,
                unfinished_work: float_gauge(r, "workqueue_unfinished_work_seconds", "Seconds spent so far on keys still being processed, summed.", &["name"])?,
                longest_running_processor: float_gauge(r, "workqueue_longest_running_processor_seconds", "Seconds the longest running key has taken so far.", &["name"])?,
                retries: counter(r, "workqueue_retries_total", "Keys added again after a failure.", &["name"])?,
            },
            before_scrape: Mutex::default(),
            registry: r.clone(),
        };
        #[cfg(target_os = "linux")]
        r.register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ))?;
        metrics.create_series();
        Ok(Arc::new(metrics))
    }

    /// A rate over a series that does not exist yet is no answer at all, so those that alerts use
    /// exist from the start.
    fn create_series(&self) {
        self.build_info
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        self.broadcast_jobs.create_series();
        self.cron_jobs.create_series();
        self.daemon_sets.create_series();
        self.jobs.create_series();
        for event in ["Normal", "Warning"] {
            self.events.with_label_values(&[event]);
        }
    }

    /// The same of a controller, and of the rules of its interlock.
    pub fn create_series_of(&self, controller: &str, rules: &[&str]) {
        self.gate_wait.with_label_values(&[controller]);
        self.gate_waits.with_label_values(&[controller]);
        self.plan_duration.with_label_values(&[controller]);
        self.panics.with_label_values(&[controller]);
        self.plans_expired.with_label_values(&[controller]);
        for rule in rules {
            self.interlock_trips.with_label_values(&[controller, rule]);
        }
    }

    /// Registers a callback that sets gauges before the metrics are encoded. Not on the thread that
    /// plans, which waits for what it locks: no longer than a plan takes.
    pub fn before_scrape(&self, set: impl Fn(&Self) + Send + Sync + 'static) {
        self.before_scrape
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(set));
    }

    /// All metrics in the Prometheus text format, version 0.0.4.
    ///
    /// # Errors
    /// When a metric cannot be written as text.
    pub fn encode(&self) -> Result<Vec<u8>, prometheus::Error> {
        for set in self
            .before_scrape
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            set(self);
        }
        let mut text = Vec::with_capacity(32 * 1024);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_that_alerts_use_exist_from_the_start() {
        let metrics = Metrics::new().unwrap();
        metrics.create_series_of("broadcastjob", &["one_per_node"]);
        let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
        for series in [
            "carillon_build_info{version=",
            "carillon_broadcastjob_syncs_total{result=\"error\"} 0",
            "carillon_broadcastjob_sync_duration_seconds_count{result=\"success\"} 0",
            "carillon_panics_total{controller=\"broadcastjob\"} 0",
            "carillon_interlock_trips_total{controller=\"broadcastjob\",rule=\"one_per_node\"} 0",
            "carillon_broadcastjob_jobs{phase=\"stalled\"} 0",
            "job_controller_job_syncs_total{action=\"tracking\",completion_mode=\"Indexed\",result=\"error\"} 0",
            "process_resident_memory_bytes",
        ] {
            assert!(text.contains(series), "{series} is missing in:\n{text}");
        }
    }

    #[test]
    fn gauges_are_set_when_scraped() {
        let metrics = Metrics::new().unwrap();
        metrics.before_scrape(|m| m.store_rows.with_label_values(&["Pod"]).set(7));
        let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
        assert!(text.contains("carillon_store_rows{kind=\"Pod\"} 7"));
    }

    #[test]
    fn no_label_can_hold_a_pod_or_node_name() {
        let metrics = Metrics::new().unwrap();
        for family in metrics.registry.gather() {
            for metric in family.get_metric() {
                for label in metric.get_label() {
                    assert!(
                        !["pod", "node", "namespace", "job"].contains(&label.name()),
                        "{} has the label {}",
                        family.name(),
                        label.name()
                    );
                }
            }
        }
    }
}
