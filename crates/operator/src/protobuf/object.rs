//! A message as serde sees it: what its JSON would be.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::malformed::Malformed;
use super::schema::{Holds, Message};
use super::wire::{Fields, Value, bytes};

/// Reads a message.
///
/// # Errors
/// When it is malformed, or not what `T` needs.
pub fn read<'a, T: Deserialize<'a>>(
    message: &'a [u8],
    schema: &'static Message,
) -> Result<T, Malformed> {
    T::deserialize(Single {
        value: Value::Bytes(message),
        holds: Holds::One(schema),
    })
}

/// One value.
#[derive(Clone, Copy)]
struct Single<'a> {
    value: Value<'a>,
    holds: Holds,
}

impl<'de> Single<'de> {
    fn number(self) -> Result<u64, Malformed> {
        match self.value {
            Value::Number(number) => Ok(number),
            _ => Err(Malformed::WireType),
        }
    }

    fn bytes(self) -> Result<&'de [u8], Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::WireType),
        }
    }

    fn text(self) -> Result<&'de str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::NotUtf8)
    }

    /// Seconds; Kubernetes writes no parts of them. `None`: it is not set.
    fn time(self) -> Result<Option<i64>, Malformed> {
        let mut fields = Fields::of(self.bytes()?);
        let mut seconds = None;
        while let Some(field) = fields.next()? {
            if let (1, Value::Number(number)) = field {
                seconds = Some(number.cast_signed());
            }
        }
        Ok(seconds)
    }
}

impl<'de> Deserializer<'de> for Single<'de> {
    type Error = Malformed;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        match self.holds {
            Holds::Text | Holds::Texts => visitor.visit_borrowed_str(self.text()?),
            Holds::Integer => visitor.visit_i64(self.number()?.cast_signed()),
            Holds::Bool => visitor.visit_bool(self.number()? != 0),
            Holds::Time => match self.time()? {
                Some(seconds) => visitor.visit_i64(seconds),
                None => visitor.visit_unit(),
            },
            Holds::One(schema) | Holds::Many(schema) => visitor.visit_map(Object {
                fields: Fields::of(self.bytes()?),
                schema,
                next: None,
            }),
            Holds::Map => Err(Malformed::WireType),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        match self.holds {
            Holds::Time if self.time()?.is_none() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        BorrowedStrDeserializer::new(self.text()?).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier
    }
}

/// A message, field by field.
struct Object<'de> {
    fields: Fields<'de>,
    schema: &'static Message,
    /// A field whose name was told.
    next: Option<(u32, Single<'de>)>,
}

impl<'de> MapAccess<'de> for Object<'de> {
    type Error = Malformed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Malformed> {
        while let Some((number, value)) = self.fields.next()? {
            let mut known = self.schema.0.iter();
            if let Some((_, name, holds)) = known.find(|(known, ..)| *known == number) {
                let holds = *holds;
                self.next = Some((number, Single { value, holds }));
                return seed
                    .deserialize(BorrowedStrDeserializer::new(name))
                    .map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Malformed> {
        let (number, first) = self.next.take().ok_or(Malformed::Short)?;
        match first.holds {
            Holds::Texts | Holds::Many(_) | Holds::Map => seed.deserialize(Repeated {
                first: Some(first),
                number,
                fields: &mut self.fields,
            }),
            _ => seed.deserialize(first),
        }
    }
}

/// A field that is there several times, one after the other.
struct Repeated<'a, 'de> {
    first: Option<Single<'de>>,
    number: u32,
    fields: &'a mut Fields<'de>,
}

impl<'de> Repeated<'_, 'de> {
    fn next(&mut self, holds: Holds) -> Result<Option<Single<'de>>, Malformed> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let mut ahead = *self.fields;
        match ahead.next()? {
            Some((number, value)) if number == self.number => {
                *self.fields = ahead;
                Ok(Some(Single { value, holds }))
            }
            _ => Ok(None),
        }
    }
}

impl<'de> Deserializer<'de> for Repeated<'_, 'de> {
    type Error = Malformed;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let holds = self.first.map_or(Holds::Texts, |first| first.holds);
        let elements = Elements {
            of: self,
            holds,
            value: None,
        };
        match holds {
            Holds::Map => visitor.visit_map(elements),
            _ => visitor.visit_seq(elements),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Elements<'a, 'de> {
    of: Repeated<'a, 'de>,
    holds: Holds,
    /// Of the entry of a map whose key was told.
    value: Option<&'de [u8]>,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Malformed;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Malformed> {
        let next = self.of.next(self.holds)?;
        next.map(|element| seed.deserialize(element)).transpose()
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = Malformed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Malformed> {
        let Some(entry) = self.of.next(self.holds)? else {
            return Ok(None);
        };
        let entry = entry.bytes()?;
        self.value = Some(bytes(entry, 2)?);
        seed.deserialize(text(bytes(entry, 1)?)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Malformed> {
        seed.deserialize(text(self.value.take().unwrap_or_default()))
    }
}

fn text(bytes: &[u8]) -> Single<'_> {
    Single {
        value: Value::Bytes(bytes),
        holds: Holds::Text,
    }
}
