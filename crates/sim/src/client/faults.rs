//! What can go wrong between a client and the API server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_oracle::Key;
use serde_json::Value;

use super::gate::Gate;
use crate::call::Call;
use crate::status::Status;

/// Decides what becomes of each request and of each event of a watch. Asked in the order in which
/// things happen, so that a seeded or counting implementation is deterministic.
pub trait Faults: Send + Sync {
    /// How long a leg of the way takes.
    fn latency(&self, call: &Call, leg: Leg) -> Duration {
        let _ = (call, leg);
        Duration::ZERO
    }

    /// Asked before the body leaves; `call` has no body, and a create no name, yet.
    fn on_connect(&self, call: &Call) -> Connect {
        let _ = call;
        Connect::Open
    }

    /// Asked when the bytes have left.
    fn on_request(&self, call: &Call) -> Fate {
        let _ = call;
        Fate::pass()
    }

    /// Asked when an event would arrive.
    fn on_event(&self, call: &Call, event: &Event) -> EventFate {
        let _ = (call, event);
        EventFate::Deliver
    }
}

/// Nothing goes wrong.
#[derive(Clone, Copy, Debug)]
pub struct NoFaults;

impl Faults for NoFaults {}

/// A part of the way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leg {
    /// From the client to the store.
    Request,
    /// From the store to the client.
    Reply,
    /// From a change to the watcher; events of one watch do not overtake each other.
    Event,
}

/// What becomes of the connection, before any byte of the request leaves.
#[derive(Clone, Debug)]
pub enum Connect {
    /// It is there.
    Open,
    /// It takes this long.
    After(Duration),
    /// It is there when the gate opens.
    Held(Gate),
    /// It is refused.
    Refused,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub struct Fate {
    /// Holds it on its way there.
    pub hold: Option<Gate>,
    /// How often it is applied.
    pub apply: Applied,
    /// Holds the reply.
    pub hold_reply: Option<Gate>,
    /// What comes back.
    pub reply: Reply,
    /// Answers a get or list with what was at this revision.
    pub as_of: Option<u64>,
}

/// How often a request is applied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Applied {
    /// It never arrives.
    Not,
    /// As it should be.
    Once,
    /// Something on the way sends it again; the reply is that of the second.
    Twice,
}

/// What comes back.
#[derive(Clone, Debug)]
pub enum Reply {
    /// What the server answered; of a request that never arrived, a broken connection.
    Answer,
    /// The connection breaks.
    Reset,
    /// Nothing, ever.
    Never,
    /// This.
    Status(Status),
    /// This status code and body, as from a proxy.
    Raw(u16, Bytes),
}

impl Fate {
    /// All is well.
    pub fn pass() -> Self {
        Self {
            hold: None,
            apply: Applied::Once,
            hold_reply: None,
            reply: Reply::Answer,
            as_of: None,
        }
    }

    /// Answered with `status`, not applied.
    pub fn refuse(status: Status) -> Self {
        Self {
            apply: Applied::Not,
            reply: Reply::Status(status),
            ..Self::pass()
        }
    }

    /// The connection breaks before the server has read it.
    pub fn reset() -> Self {
        Self {
            apply: Applied::Not,
            reply: Reply::Reset,
            ..Self::pass()
        }
    }

    /// Applied, but the connection breaks before the reply comes.
    pub fn lose_reply() -> Self {
        Self {
            reply: Reply::Reset,
            ..Self::pass()
        }
    }

    /// Applied, and the client never hears of it.
    pub fn silence() -> Self {
        Self {
            reply: Reply::Never,
            ..Self::pass()
        }
    }

    /// Applied twice.
    pub fn twice() -> Self {
        Self {
            apply: Applied::Twice,
            ..Self::pass()
        }
    }

    /// Not applied until the gate opens.
    pub fn hold(gate: Gate) -> Self {
        Self {
            hold: Some(gate),
            ..Self::pass()
        }
    }

    /// Applied at once, answered when the gate opens.
    pub fn hold_reply(gate: Gate) -> Self {
        Self {
            hold_reply: Some(gate),
            ..Self::pass()
        }
    }

    /// Answered with the state at an earlier revision.
    pub fn as_of(revision: u64) -> Self {
        Self {
            as_of: Some(revision),
            ..Self::pass()
        }
    }
}

/// A change, as a watch is about to tell it.
#[derive(Clone, Debug)]
pub struct Event {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: &'static str,
    /// Which object.
    pub key: Key,
    /// The revision of the change.
    pub revision: u64,
    /// The object.
    pub object: Arc<Value>,
}

/// What becomes of an event of a watch.
#[derive(Clone, Debug)]
pub enum EventFate {
    /// It arrives.
    Deliver,
    /// It is lost, and the stream goes on.
    Drop,
    /// It arrives twice.
    Twice,
    /// It and what follows arrive later.
    Delay(Duration),
    /// It and what follows arrive when the gate opens.
    Hold(Gate),
    /// The server ends the stream before it.
    Close,
    /// The connection breaks in the middle of its line.
    Reset,
    /// The server says 410.
    Gone,
}
