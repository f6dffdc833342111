//! Carillon against a real API server: one binary, one cluster.

#![allow(clippy::unwrap_used)] // a test may panic

mod admit_broadcast_job;
