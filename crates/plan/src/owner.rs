//! Who children belong to.

use serde_json::Value;

use crate::object::object;
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
        object([
            ("apiVersion", self.api_version.into()),
            ("kind", self.kind.into()),
            ("name", self.name.as_str().into()),
            ("uid", self.uid.to_string().into()),
            ("controller", true.into()),
            ("blockOwnerDeletion", true.into()),
        ])
    }
}
