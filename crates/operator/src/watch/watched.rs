//! What can be watched, and what is said of it where it cannot be read.

use carillon_plan::Uid;
use serde::de::DeserializeOwned;

use crate::protobuf::Message;

/// An object that can be watched. Every [`kube::Resource`] is one; others say where their
/// resourceVersion and uid are.
pub trait Watched: DeserializeOwned + Send + 'static {
    /// How the API server encodes it for a watch, where that is known; JSON otherwise.
    const PROTOBUF: Option<&'static Message> = None;
    /// `metadata.resourceVersion`; `None` when it is missing or not a number.
    fn resource_version(&self) -> Option<u64>;
    /// `metadata.uid`; `None` when it is missing or no uid.
    fn uid(&self) -> Option<Uid>;
}

impl<K: kube::Resource + DeserializeOwned + Send + 'static> Watched for K {
    fn resource_version(&self) -> Option<u64> {
        self.meta().resource_version.as_deref()?.parse().ok()
    }

    fn uid(&self) -> Option<Uid> {
        self.meta().uid.as_deref()?.parse().ok()
    }
}

/// What could be read of an object that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectId {
    /// `metadata.namespace`, or empty.
    pub namespace: String,
    /// `metadata.name`, or empty.
    pub name: String,
    /// `metadata.uid`, or empty.
    pub uid: String,
}
