//! From bytes to lines or frames, and to events.

use std::{borrow::Cow, fmt, marker::PhantomData};

use http::StatusCode;
use kube::core::Status;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::watched::{ObjectId, Watched};
use crate::protobuf::{Malformed, Message, STATUS, WatchEvent};

/// etcd holds objects of 1.5 MiB by default; a line far beyond that is not one of them.
pub(super) const LONGEST_LINE: usize = 32 << 20;

/// Why a watch ended.
#[derive(Debug)]
pub(super) enum End {
    /// The server closed it, as it does when its time is over.
    Closed,
    /// It was open for a while and said nothing.
    Silent,
    /// Only a new list helps, and why.
    Relist(&'static str),
    /// Anything else.
    Failed(String),
}

/// What an error status, as event or as response, means for a watch.
pub(super) fn refusal(status: &Status) -> End {
    if status.code == StatusCode::GONE.as_u16() || status.reason == "Expired" {
        return End::Relist("its resourceVersion is too old");
    }
    // What the server says to a resourceVersion it has not reached: after a restored backup it
    // may take forever to get there.
    if status.message.contains("Too large resource version") {
        return End::Relist("its resourceVersion is in the server's future");
    }
    End::Failed(format!("{} ({})", status.message, status.code))
}

/// Cuts a stream into lines; a line that came in one piece is not copied.
#[derive(Default)]
pub(super) struct Lines {
    half: Vec<u8>,
}

impl Lines {
    pub(super) fn push(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), End>,
    ) -> Result<(), End> {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = chunk.split_at(end);
            chunk = &rest[1..];
            if self.half.is_empty() {
                if !line.trim_ascii().is_empty() {
                    each(line)?;
                }
            } else {
                self.half.extend_from_slice(line);
                // Given back empty, so that one huge object does not stay for ever.
                let whole = std::mem::take(&mut self.half);
                each(&whole)?;
            }
        }
        if self.half.len() + chunk.len() > LONGEST_LINE {
            return Err(End::Failed(format!(
                "a line of more than {LONGEST_LINE} bytes"
            )));
        }
        self.half.extend_from_slice(chunk);
        Ok(())
    }
}

/// Cuts a stream into frames, each behind its length in four bytes.
#[derive(Default)]
pub(super) struct Frames {
    half: Vec<u8>,
}

impl Frames {
    pub(super) fn push(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), End>,
    ) -> Result<(), End> {
        let half = std::mem::take(&mut self.half);
        if half.is_empty() {
            self.half = cut(chunk, &mut each)?.to_vec();
            return Ok(());
        }
        let mut joined = half;
        joined.extend_from_slice(chunk);
        let rest = cut(&joined, &mut each)?;
        self.half = if rest.len() == joined.len() {
            joined
        } else {
            rest.to_vec()
        };
        Ok(())
    }
}

/// Gives out the whole frames at the beginning; what is left.
fn cut<'a>(
    mut rest: &'a [u8],
    each: &mut impl FnMut(&[u8]) -> Result<(), End>,
) -> Result<&'a [u8], End> {
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        if length > LONGEST_LINE {
            return Err(End::Failed(format!("a frame of {length} bytes")));
        }
        let Some((frame, behind)) = behind.split_at_checked(length) else {
            break;
        };
        each(frame)?;
        rest = behind;
    }
    Ok(rest)
}

/// One line or frame of a watch.
pub(super) enum Event<K> {
    Added(K),
    Modified(K),
    Deleted(K),
    Bookmark(u64),
    Error(Box<Status>),
    Other,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Type,
    Object,
    #[serde(other)]
    Other,
}

/// By hand, because serde's derive would gather the object in memory before parsing it. The API
/// server writes `type` first; a line where it does not takes the slow way.
impl<'de, K: Deserialize<'de>> Deserialize<'de> for Event<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Line<K>(PhantomData<K>);

        impl<'de, K: Deserialize<'de>> Visitor<'de> for Line<K> {
            type Value = Event<K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a watch event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event<K>, A::Error> {
                let missing = serde::de::Error::missing_field;
                let mut kind = None;
                let mut event = None;
                while let Some(field) = map.next_key()? {
                    match field {
                        Field::Type => kind = Some(map.next_value()?),
                        Field::Object => {
                            event = Some(match kind.ok_or_else(|| missing("type"))? {
                                EventType::Added => Event::Added(map.next_value()?),
                                EventType::Modified => Event::Modified(map.next_value()?),
                                EventType::Deleted => Event::Deleted(map.next_value()?),
                                EventType::Bookmark => {
                                    Event::Bookmark(map.next_value::<Bookmark>()?.rv()?)
                                }
                                EventType::Error => Event::Error(map.next_value()?),
                                EventType::Other => {
                                    map.next_value::<IgnoredAny>()?;
                                    Event::Other
                                }
                            });
                        }
                        Field::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                event.ok_or_else(|| missing("object"))
            }
        }

        deserializer.deserialize_map(Line(PhantomData))
    }
}

impl<K: Watched> Event<K> {
    /// Reads a frame.
    pub(super) fn read(frame: &[u8], schema: &'static Message) -> Result<Self, Malformed> {
        let event = WatchEvent::read(frame)?;
        Ok(match event.kind {
            "ADDED" => Self::Added(event.decode(schema)?),
            "MODIFIED" => Self::Modified(event.decode(schema)?),
            "DELETED" => Self::Deleted(event.decode(schema)?),
            "BOOKMARK" => Self::Bookmark(event.decode::<Bookmark>(schema)?.rv()?),
            "ERROR" => Self::Error(event.decode(&STATUS)?),
            _ => Self::Other,
        })
    }
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
}

impl Bookmark {
    fn rv<E: serde::de::Error>(&self) -> Result<u64, E> {
        self.metadata.resource_version.parse().map_err(E::custom)
    }
}

#[derive(Deserialize)]
pub(super) struct RawEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// Who an object is, as far as it can be read, and its resourceVersion.
pub(super) fn identify(object: &RawValue) -> (ObjectId, Option<u64>) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata<'a> {
        #[serde(borrow)]
        namespace: Option<&'a RawValue>,
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        uid: Option<&'a RawValue>,
        #[serde(borrow)]
        resource_version: Option<&'a RawValue>,
    }

    // Forgiving: nothing about this object is to be relied on.
    let Object { metadata } = serde_json::from_str(object.get()).unwrap_or_default();
    let text = |field: Option<&RawValue>| -> String {
        let text = field.map(|field| serde_json::from_str(field.get()));
        text.and_then(Result::ok).unwrap_or_default()
    };
    let id = ObjectId {
        namespace: text(metadata.namespace),
        name: text(metadata.name),
        uid: text(metadata.uid),
    };
    (id, text(metadata.resource_version).parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let stream = b"\0\0\0\x02ab\0\0\0\0\0\0\0\x03cde";
        for size in 1..=stream.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for chunk in stream.chunks(size) {
                let each = |frame: &[u8]| {
                    found.push(frame.to_vec());
                    Ok(())
                };
                frames.push(chunk, each).unwrap();
            }
            assert_eq!(found, [&b"ab"[..], b"", b"cde"], "{size}");
        }
        let endless = Frames::default().push(&[0xff; 4], |_| Ok(()));
        assert!(matches!(endless, Err(End::Failed(_))));
    }
}
