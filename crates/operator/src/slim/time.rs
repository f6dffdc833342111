//! Times, which are text in JSON and seconds in protobuf.

use std::fmt;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A time that may be missing; for `deserialize_with`.
pub(super) fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let time = Option::<Time>::deserialize(deserializer)?;
    Ok(time.map(|Time(time)| time))
}

struct Time(Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrSeconds;

        impl Visitor<'_> for TextOrSeconds {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time as RFC 3339 has it, or seconds")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                text.parse().map(Time).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<Time, E> {
                Timestamp::from_second(seconds).map(Time).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(TextOrSeconds)
    }
}
