//! Null in an object means what absence means, as the API server has it.

use serde::{Deserialize, Deserializer};

/// For fields whose default is that of their type.
pub(crate) fn as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
