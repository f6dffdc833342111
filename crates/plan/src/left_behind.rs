//! What an object that is gone has left behind with our finalizer: it is released, once it is certain that the object
//! is gone.

use std::io::Write;

use crate::digest::line;
use crate::object_key::ApiKind;
use crate::plan::{Act, Step};
use crate::uid::Uid;

/// A plan for what was left behind.
pub type Plan = crate::plan::Plan<Action>;

/// Something with our finalizer, of an object that is in no cache.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Held {
    /// Its kind.
    pub kind: ApiKind,
    /// Its name. Its namespace is that of the object.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Uid,
    /// It is released only in this version.
    pub rv: Option<u64>,
    /// Whether an event tells when it has changed.
    pub watched: bool,
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// What is held.
    pub held: &'a [Held],
    /// One cache may be behind another, so that only the API server knows whether the object is gone. False where
    /// there is nothing to ask for.
    pub asks: bool,
}

/// One write, or the question whether the object is gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Ask whether the object is really gone.
    ConfirmGone,
    /// Remove our finalizer.
    Release(Held),
}

impl Act for Action {
    fn word(&self) -> &'static str {
        match self {
            Self::ConfirmGone => "confirm_gone",
            Self::Release(_) => "release",
        }
    }

    fn object(&self) -> Option<String> {
        match self {
            Self::ConfirmGone => None,
            Self::Release(held) => Some(held.name.to_string()),
        }
    }

    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        let word = self.word();
        match self {
            Self::ConfirmGone => line(out, &word),
            Self::Release(held) => {
                let Held {
                    kind,
                    name,
                    uid,
                    rv,
                    watched: _,
                } = held;
                line(out, &(word, kind, name, uid.to_string(), rv))
            }
        }
    }
}

/// What is to be done.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let releases: Vec<_> = snapshot.held.iter().cloned().map(Action::Release).collect();
    if releases.is_empty() {
        return Plan::default();
    }
    let question = snapshot
        .asks
        .then(|| Step::needed(vec![Action::ConfirmGone]));
    Plan {
        steps: question
            .into_iter()
            .chain([Step::wanted(releases)])
            .collect(),
        ..Plan::default()
    }
}
