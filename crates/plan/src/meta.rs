//! What is known of the metadata of an object that is served, of whatever kind.

use std::sync::Arc;

use jiff::Timestamp;

use crate::object_key::ObjectKey;

/// The metadata of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Meta {
    /// API, kind, namespace, name and uid.
    pub owner: Arc<ObjectKey>,
    /// `metadata.generation`.
    pub generation: i64,
    /// resourceVersion that it was read at.
    pub rv: u64,
    /// Somebody has deleted it.
    pub deleting: bool,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
}

impl Meta {
    /// That of an object which nobody has changed since it was created.
    pub fn new(owner: Arc<ObjectKey>, created: Timestamp) -> Self {
        Self {
            owner,
            generation: 1,
            rv: 1,
            deleting: false,
            created,
        }
    }

    /// Whether the spec, and whether it is to go, are as they were.
    pub fn asks_the_same(&self, earlier: &Self) -> bool {
        self.generation == earlier.generation && self.deleting == earlier.deleting
    }
}
