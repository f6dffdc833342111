//! The interlock: a second opinion on every plan, before any of it is carried out.
//!
//! A plan is checked against the snapshot it was made from, by rules that are about what may never
//! happen and not about what should. Nothing of the planner is used here, so that a mistake of one
//! is not a mistake of both. The cost is that of one walk over the plan, and what is open.
//!
//! Each rule is about what a plan *does*. A snapshot that is odd already (somebody changed a slice,
//! somebody made a look-alike pod) trips nothing as long as the plan leaves it alone.

pub mod broadcast_job;
pub mod cron_job;
pub mod daemon_set;
pub mod job;
pub mod left_behind;
mod trip;

use jiff::SignedDuration;

pub use self::trip::Trip;

/// How soon an object whose plan was refused is planned again, if nothing happens before.
pub const TRIPPED_RECHECK: SignedDuration = SignedDuration::from_secs(60);
