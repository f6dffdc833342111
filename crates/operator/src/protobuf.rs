//! Objects as the API server encodes them fastest, `application/vnd.kubernetes.protobuf`, read into
//! the same types as their JSON.
//!
//! A [`schema`] names the fields that we read, as `generated.proto` of k8s.io/api numbers them;
//! everything else, managedFields above all, is skipped by its length without being looked at.

mod malformed;
mod object;
mod schema;
mod tests;
mod wire;

use serde::{Deserialize, de::DeserializeOwned};

pub use self::malformed::Malformed;
pub use self::object::read;
pub use self::schema::{METADATA, Message, POD, STATUS};
use self::wire::bytes;

/// What the API server is asked for.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// An event of a watch, still encoded.
#[derive(Debug)]
pub struct WatchEvent<'a> {
    /// Such as `ADDED`.
    pub kind: &'a str,
    /// The object.
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    /// Reads one frame of a watch.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(frame: &'a [u8]) -> Result<Self, Malformed> {
        let kind = bytes(frame, 1)?;
        let raw = bytes(bytes(frame, 2)?, 1)?;
        Ok(Self {
            kind: std::str::from_utf8(kind).map_err(|_| Malformed::NotUtf8)?,
            object: object(raw).ok_or(Malformed::NotKubernetes)??,
        })
    }

    /// The object, as one of this schema.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode<T: Deserialize<'a>>(&self, schema: &'static Message) -> Result<T, Malformed> {
        read(self.object, schema)
    }
}

/// Reads a reply of the API server, in whichever of its two encodings it came.
pub fn read_reply<T: DeserializeOwned>(
    reply: &[u8],
    schema: &'static Message,
) -> Result<T, String> {
    match object(reply) {
        Some(object) => object
            .and_then(|object| read(object, schema))
            .map_err(|e| e.to_string()),
        None => serde_json::from_slice(reply).map_err(|e| e.to_string()),
    }
}

/// The object in a reply. `None`: the reply is none of protobuf.
fn object(reply: &[u8]) -> Option<Result<&[u8], Malformed>> {
    let envelope = reply.strip_prefix(b"k8s\0")?;
    Some(bytes(envelope, 2))
}
