//! A queue of keys, in the shape every reader of client-go knows.
//!
//! [`Queue`] is the pure core: no clock, no locks, `now` is an argument. [`WorkQueue`] puts a lock,
//! a timer and metrics around it.
//!
//! The rules:
//! - a key is handed to one worker at a time; added while it is processed, it runs once more after;
//! - adds of a waiting key collapse into one; the keys of a namespace leave in the order they came;
//! - namespaces take turns, and none has all workers: [`Share`](crate::share::Share);
//! - of several delayed adds of one key the earliest wins;
//! - an add without delay leaves a delayed add in place: the key then runs now and again later.
//!   A deadline is therefore never lost to an event that came before it;
//! - a key that fails waits `base × 2ⁿ`, at most `max`, until it is forgotten.

mod claim;
mod core;
mod key;
mod later;
mod shared;
mod view;
mod work_queue;

pub use self::{
    claim::Claim,
    core::{Backoff, Queue},
    key::Key,
    view::QueueView,
    work_queue::WorkQueue,
};
