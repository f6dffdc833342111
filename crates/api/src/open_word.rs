//! Words of a status to which a later version may add some.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads one; a word of a later version is none.
pub(crate) fn known<'de, D, T>(field: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let word = Value::deserialize(field)?;
    Ok(serde_json::from_value(word).ok())
}
