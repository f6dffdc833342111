//! Random histories of families of BroadcastJobs: a job, its retries, and what happens to them.
//!
//! The planner and the interlock are the real ones, and the requests of a plan are carried out one by one. All
//! else is a model: the store with every version of everything, garbage collection, kubelets, users. It knows
//! no connections and no caches, so that a thousand histories take a few seconds, and a leader may see any mixture
//! of old versions. It judges by rules of its own ([`rules`]) that share nothing with planner, interlock and
//! oracle but their data types.

mod calm;
mod history;
mod lead;
mod leader;
mod many;
mod mode;
mod objects;
mod outcome;
mod past;
mod perform;
mod rules;
mod store;
mod users;
mod versions;
mod view;
mod world;

pub use self::history::history;
pub use self::many::{Found, run};
pub use self::mode::Mode;
pub use self::outcome::{Failure, Outcome};
pub use self::world::Planner;
