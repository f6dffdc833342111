//! Makes metrics, each with its help, and registers them.

use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector,
};

fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    metric: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

pub(crate) fn counter(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    register(r, IntCounterVec::new(Opts::new(name, help), labels)?)
}

pub(crate) fn single(
    r: &Registry,
    name: &str,
    help: &str,
) -> Result<IntCounter, prometheus::Error> {
    register(r, IntCounter::new(name, help)?)
}

pub(crate) fn single_gauge(
    r: &Registry,
    name: &str,
    help: &str,
) -> Result<IntGauge, prometheus::Error> {
    register(r, IntGauge::new(name, help)?)
}

pub(crate) fn plain_histogram(
    r: &Registry,
    name: &str,
    help: &str,
    buckets: Vec<f64>,
) -> Result<Histogram, prometheus::Error> {
    let opts = HistogramOpts::new(name, help).buckets(buckets);
    register(r, Histogram::with_opts(opts)?)
}

pub(crate) fn gauge(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntGaugeVec, prometheus::Error> {
    register(r, IntGaugeVec::new(Opts::new(name, help), labels)?)
}

pub(crate) fn float_gauge(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<GaugeVec, prometheus::Error> {
    register(r, GaugeVec::new(Opts::new(name, help), labels)?)
}

pub(crate) fn histogram(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    buckets: Vec<f64>,
) -> Result<HistogramVec, prometheus::Error> {
    register(
        r,
        HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets), labels)?,
    )
}
