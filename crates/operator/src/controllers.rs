//! One file per kind: which objects it reads, and how a plan of it is made and carried out.

pub mod broadcast_job;
