//! What OpenKruise's BroadcastJob does wrong, and every situation that a job has to get through: the
//! real operator in the simulated cluster. `docs/defects.md` has the list.

#![allow(clippy::unwrap_used)] // a test may panic

mod api_server;
mod failures;
mod nodes;
mod operator;
mod played;
mod pods;
mod users;
