//! What is done for one object at a time, whatever its kind. What each kind says of itself is in [`kinds`](crate::kinds).

pub(crate) mod cached_kind;
pub(crate) mod controller;
pub mod core;
pub(crate) mod irreproducible;
pub(crate) mod kind;
mod left_behind;
pub(crate) mod reads;
pub mod refusals;
pub mod relists;
mod replay;
mod rules;
pub(crate) mod served;

pub use self::cached_kind::CachedKind;
pub use self::controller::Controller;
pub use self::irreproducible::Irreproducible;
pub use self::kind::{Follow, Learnt, RulesOf, ServedKind, Synced, Verify};
pub use self::reads::{Read, Selects, Watching};
pub use self::replay::replay;
pub use self::rules::Rules;
pub use self::served::{Build, NodeChanged, Replay, Running, Served};
