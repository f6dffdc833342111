//! Templates, when objects are made of them. As values they are many times what they are as text, so that one is
//! a value only while an object is written from it, which waits for nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use carillon_plan::{ObjectKey, Written};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::precondition::changed;
use crate::gate::Kind;
use crate::request::{self, Call};
use crate::share::permit::Permit;
use crate::slim::SlimMeta;
use crate::writes::{SendError, Turn};

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

/// A template. One that is large is read again when it is used; those who use it at the same time share what
/// was read, and nobody keeps it.
#[derive(Debug)]
pub struct Template<'a> {
    written: &'a Written,
    place: Place<'a>,
    read: Mutex<Weak<Box<RawValue>>>,
}

/// The request that creates an object, and what it holds until that is answered.
#[derive(Debug)]
pub struct Creation {
    /// The request.
    pub call: Call,
    /// What is held.
    pub held: Held,
}

/// A large template, and room for it and for the object made of it.
#[derive(Debug, Default)]
pub struct Held(
    #[expect(dead_code, reason = "held until it is dropped")] Option<(Arc<Box<RawValue>>, Permit)>,
);

#[derive(Deserialize)]
struct Whole {
    metadata: SlimMeta,
    #[serde(default)]
    spec: BTreeMap<String, Box<RawValue>>,
}

impl<'a> Template<'a> {
    /// A template as it is held, and where all of it is.
    pub fn new(written: &'a Written, place: Place<'a>) -> Self {
        Self {
            written,
            place,
            read: Mutex::default(),
        }
    }

    /// Writes a request from the template, in a place among the requests in flight. What is small is bounded by
    /// these, and needs no room. Room is waited for after everything else, so that it is held by nobody who waits.
    ///
    /// # Errors
    /// When it is not held, and cannot be read or is another one by now; when there is no room for long.
    pub async fn creation(
        &self,
        turn: &Turn<'_>,
        write: impl FnOnce(&Value) -> Call,
    ) -> Result<Creation, SendError> {
        if !self.written.is_elsewhere() {
            let call = write(&self.written.value());
            let held = Held::default();
            return Ok(Creation { call, held });
        }
        // The text is shared, but each that shares it may be the last that has it.
        let room = turn.room(2 * self.written.bytes()).await?;
        let text = self.read(turn).await?;
        let call = write(&serde_json::from_str(text.get()).map_err(|_| changed())?);
        let held = Held(Some((text, room)));
        Ok(Creation { call, held })
    }

    async fn read(&self, turn: &Turn<'_>) -> Result<Arc<Box<RawValue>>, SendError> {
        let mut read = self.read.lock().await;
        if let Some(text) = read.upgrade() {
            return Ok(text);
        }
        let text = Arc::new(self.fetch(turn).await?);
        *read = Arc::downgrade(&text);
        Ok(text)
    }

    async fn fetch(&self, turn: &Turn<'_>) -> Result<Box<RawValue>, SendError> {
        let Place {
            kind,
            owner,
            generation,
            field,
        } = self.place;
        let request = request::get_whole(kind, &owner.namespace, &owner.name);
        let reply = turn.read(request).await?;
        let mut whole: Whole = serde_json::from_slice(&reply).map_err(|error| {
            let what = format!("{} {}/{}", owner.kind, owner.namespace, owner.name);
            SendError::Unknown(format!("{what}: undecodable: {error}"))
        })?;
        let is_planned =
            whole.metadata.uid() == Some(owner.uid) && whole.metadata.generation == generation;
        let text = whole.spec.remove(field).filter(|_| is_planned);
        text.ok_or_else(changed)
    }
}
