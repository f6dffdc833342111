//! Carillon against a real API server: one binary, one cluster.

mod admit_broadcast_job;
