//! What happens to a process at one of its writes.

use serde::{Deserialize, Serialize};

/// What happens to a process.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Blow {
    /// SIGKILL.
    Kill(Point),
    /// SIGSTOP, with the request on its way; SIGCONT when another process has done what was left.
    Stop,
    /// None, but the reply to the request is lost.
    LoseReply,
    /// None, but the API server refuses the request with an internal error.
    Refuse,
}

/// Where a process is killed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Point {
    /// The request is not sent.
    BeforeSend,
    /// The request is applied and its reply is lost.
    ReplyLost,
    /// The reply was read and nothing was made of it.
    AfterReply,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BeforeSend, Self::ReplyLost, Self::AfterReply];
}
