//! Times, which are text in JSON and seconds in protobuf.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A time that may be missing; for `deserialize_with`.
pub(crate) fn optional<'de, D: Deserializer<'de>>(
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
                let time = text.parse().or_else(|error| beyond(text).ok_or(error));
                time.map(Time).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<Time, E> {
                let range = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
                let seconds = seconds.clamp(*range.start(), *range.end());
                Timestamp::from_second(seconds).map(Time).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Time, E> {
                self.visit_i64(i64::try_from(seconds).unwrap_or(i64::MAX))
            }
        }

        deserializer.deserialize_any(TextOrSeconds)
    }
}

/// A time of which the API server has days more than we: the last or first that we have. Whoever may write
/// the status of a pod can write it, and an object is not to be unreadable for that.
fn beyond(text: &str) -> Option<Timestamp> {
    let time: DateTime = text.strip_suffix('Z')?.parse().ok()?;
    Some(if time.year() > 0 {
        Timestamp::MAX
    } else {
        Timestamp::MIN
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Option<Timestamp> {
        optional(value).unwrap()
    }

    #[test]
    fn every_time_that_the_api_server_takes_can_be_read() {
        let new_year: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(read(json!("2026-01-01T00:00:00Z")), Some(new_year));
        assert_eq!(read(json!(new_year.as_second())), Some(new_year));
        assert_eq!(read(json!(null)), None);
        assert!(read(json!("0001-01-01T00:00:00Z")).is_some());
        assert_eq!(read(json!("9999-12-31T23:59:59Z")), Some(Timestamp::MAX));
        let seconds = |seconds: i64| read(json!(seconds)).map(Timestamp::as_second);
        assert_eq!(seconds(253_402_300_799), Some(Timestamp::MAX.as_second()));
        assert_eq!(seconds(i64::MIN), Some(Timestamp::MIN.as_second()));
        assert!(optional(json!("tomorrow")).is_err());
    }
}
