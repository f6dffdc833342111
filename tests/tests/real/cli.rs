//! `kubectl carillon` as people and scripts use it: what it prints, and its exit codes.

mod cron_jobs;
mod daemon_sets;
mod decisions;
mod desk;
mod doctor;
mod lists;
mod plugin;
mod proxy;
mod pty;
mod questions;
mod refusals;
mod retries;
mod roles;
mod simulate;
mod terminal;
mod top;
mod verbs;
