//! A part of an object as somebody wrote it.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON that is read when it matters, if it does. Clones share it. One that is large may be left where
/// it is stored; its size is known then, and no more.
#[derive(Clone, Debug, Default)]
pub struct Written {
    text: Option<Arc<str>>,
    bytes: usize,
}

impl Written {
    /// What it says, if it is here and says such a thing.
    pub fn read<T: DeserializeOwned + Default>(&self) -> T {
        let read = self.text.as_ref().map(|text| serde_json::from_str(text));
        read.and_then(Result::ok).unwrap_or_default()
    }

    /// All that it says; null when it is not here.
    pub fn value(&self) -> Value {
        self.read()
    }

    /// As it was written, if it is here.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Bytes of what was written.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is not here, although something was written.
    pub fn is_elsewhere(&self) -> bool {
        self.text.is_none() && self.bytes > 0
    }

    /// Bytes that are held of it.
    pub fn bytes_held(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }

    /// The same, left where it is stored if it has more bytes than that.
    #[must_use]
    pub fn at_most(self, bytes: usize) -> Self {
        if self.bytes <= bytes {
            return self;
        }
        Self { text: None, ..self }
    }

    /// Whether both are here and say the same in the same words.
    pub fn is_same(&self, other: &Self) -> bool {
        self.text == other.text && !self.is_elsewhere() && !other.is_elsewhere()
    }

    /// Whether both are clones of one.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        let both = self.text.as_ref().zip(other.text.as_ref());
        both.is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl From<&Value> for Written {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::default(),
            value => value.to_string().into(),
        }
    }
}

impl From<String> for Written {
    fn from(json: String) -> Self {
        Self {
            bytes: json.len(),
            text: Some(json.into()),
        }
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Box<str> = Box::<RawValue>::deserialize(deserializer)?.into();
        Ok(match &*text {
            "null" => Self::default(),
            _ => String::from(text).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_large_is_left_where_it_is_and_never_taken_for_the_same() {
        let small = Written::from(&json!({"a": 1}));
        assert_eq!(small.clone().at_most(7).value(), json!({"a": 1}));
        assert!(small.is_same(&small.clone()));
        let large = small.clone().at_most(6);
        assert!(large.is_elsewhere() && large.value().is_null());
        assert_eq!((large.bytes(), large.bytes_held()), (7, 0));
        assert!(!large.is_same(&large.clone()) && !large.is_same(&Written::default()));
        let none: Written = serde_json::from_str("null").unwrap();
        assert!(!none.is_elsewhere() && none.is_same(&Written::default()));
    }
}
