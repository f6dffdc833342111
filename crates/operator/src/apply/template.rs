//! Templates, when objects are made of them: as values they are many times what they are as text, so
//! that only so much of them is unpacked at a time.

use std::collections::BTreeMap;

use carillon_plan::{ObjectKey, Written};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OnceCell, OwnedSemaphorePermit};

use super::changed;
use crate::gate::Kind;
use crate::request;
use crate::slim::SlimMeta;
use crate::writes::{SendError, Writes};

/// Where a template is stored.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Kind of the object.
    pub kind: Kind,
    /// The object.
    pub owner: &'a ObjectKey,
    /// Generation of the object it was planned from.
    pub generation: i64,
    /// Field of the spec.
    pub field: &'static str,
}

/// A template, unpacked when it is first used.
#[derive(Debug)]
pub struct Template<'a> {
    writes: &'a Writes,
    written: &'a Written,
    place: Place<'a>,
    unpacked: OnceCell<Unpacked>,
}

#[derive(Debug)]
struct Unpacked {
    value: Value,
    _room: OwnedSemaphorePermit,
}

#[derive(Deserialize)]
struct Whole {
    metadata: SlimMeta,
    #[serde(default)]
    spec: BTreeMap<String, Box<RawValue>>,
}

impl<'a> Template<'a> {
    /// A template as it is held, and where all of it is.
    pub fn new(writes: &'a Writes, written: &'a Written, place: Place<'a>) -> Self {
        Self {
            writes,
            written,
            place,
            unpacked: OnceCell::new(),
        }
    }

    /// The template, and room for an object made of it, which is to be held until that is sent.
    ///
    /// # Errors
    /// When it is not held, and cannot be read or is another one by now; when there is no room for long.
    pub async fn unpack(&self) -> Result<(&Value, OwnedSemaphorePermit), SendError> {
        let unpacked = self.unpacked.get_or_try_init(|| self.read()).await?;
        let room = self.writes.room_for_body(self.written.bytes()).await?;
        Ok((&unpacked.value, room))
    }

    async fn read(&self) -> Result<Unpacked, SendError> {
        let room = self.writes.room_for_template(self.written.bytes()).await?;
        let value = if self.written.is_elsewhere() {
            self.fetch().await?
        } else {
            self.written.value()
        };
        Ok(Unpacked { value, _room: room })
    }

    async fn fetch(&self) -> Result<Value, SendError> {
        let Place {
            kind,
            owner,
            generation,
            field,
        } = self.place;
        let request = request::get_whole(kind, &owner.namespace, &owner.name);
        let reply = self.writes.read(request).await?;
        let whole: Whole = serde_json::from_slice(&reply).map_err(|error| {
            let what = format!("{} {}/{}", owner.kind, owner.namespace, owner.name);
            SendError::Unknown(format!("{what}: undecodable: {error}"))
        })?;
        let is_planned =
            whole.metadata.uid() == Some(owner.uid) && whole.metadata.generation == generation;
        let text = whole.spec.get(field).filter(|_| is_planned);
        let value = text.and_then(|text| serde_json::from_str(text.get()).ok());
        value.ok_or_else(changed)
    }
}
