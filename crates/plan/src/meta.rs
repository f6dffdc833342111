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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_key::JOB;
    use crate::uid::Uid;

    #[test]
    fn an_edit_and_a_deletion_ask_for_something_else_and_a_status_does_not() {
        let owner = ObjectKey::of(JOB, "ops", "sum", Uid::default());
        let before = Meta::new(owner, Timestamp::UNIX_EPOCH);
        let changed = |change: fn(&mut Meta)| {
            let mut meta = before.clone();
            change(&mut meta);
            meta.asks_the_same(&before)
        };
        assert!(changed(|meta| meta.rv += 1));
        assert!(!changed(|meta| meta.generation += 1));
        assert!(!changed(|meta| meta.deleting = true));
    }
}
