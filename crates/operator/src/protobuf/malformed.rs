//! What is wrong with bytes that cannot be read.

use std::fmt;

use serde::de;

/// Why bytes are not the object they should be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// A message ends in the middle of a field.
    #[error("a field is cut off")]
    Short,
    /// A field says of itself what cannot be.
    #[error("a field is of no known form")]
    WireType,
    /// A text is none.
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// An object of a watch does not begin as it has to.
    #[error("not an object of Kubernetes")]
    NotKubernetes,
    /// The type it is read into does not take it.
    #[error("{0}")]
    Refused(String),
}

impl de::Error for Malformed {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Refused(message.to_string())
    }
}
