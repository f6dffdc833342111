//! Carillon where containers really run and end: the chart as pods, each kind on nodes that fail as nodes do. Needs
//! root and the packages that `machine::check` names.

#![allow(clippy::unwrap_used)] // a test may panic

mod bare_nodes;
mod chart;
mod control_plane;
mod endings;
mod host;
mod lab;
mod network;
mod node_troubles;
mod upgrade;
mod verdict;
mod work;
