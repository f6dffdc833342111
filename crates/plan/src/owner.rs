//! Who children belong to.

use serde_json::{Value, json};

use crate::uid::Uid;

/// An object with children.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Owner {
    /// Such as `carillon.dev/v1alpha1`.
    pub api_version: &'static str,
    /// Such as BroadcastJob.
    pub kind: &'static str,
    /// Namespace of owner and children.
    pub namespace: String,
    /// Name of the owner.
    pub name: String,
    /// Uid of the owner.
    pub uid: Uid,
}

impl Owner {
    /// The controller reference its children carry.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid.to_string(),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }
}
