//! A part of an object as it was written.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON that is read when it matters, if it does. Clones share it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Text(Option<Arc<str>>);

impl Text {
    /// What it says, if it says such a thing.
    pub(super) fn read<T: DeserializeOwned + Default>(&self) -> T {
        let read = self.0.as_ref().map(|text| serde_json::from_str(text));
        read.and_then(Result::ok).unwrap_or_default()
    }

    /// All that it says.
    pub(super) fn value(&self) -> Value {
        self.read()
    }

    /// Its bytes.
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |text| text.len())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Some(text.get().into())))
    }
}
