//! Carillon against a real API server: one binary.

#![allow(clippy::unwrap_used)] // a test may panic

mod admit_broadcast_job;
mod admit_cron_job;
mod admit_daemon_set;
mod broadcast_job;
mod chart;
mod cli;
mod conformance;
mod cron_job;
mod cron_parity;
mod daemon_parity;
mod daemon_set;
mod dashboard;
mod documented;
mod exactly_once;
mod examples;
mod gitops;
mod job_parity;
mod native_daemon_set;
mod native_only;
mod parity;
mod policies;
mod prometheus;
mod proof;
mod restored;
mod retry;
mod stored_before_rules;
mod stored_by_releases;
mod tenants;
mod version_skew;
