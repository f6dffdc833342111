//! Faults that meet chosen requests, in the order in which they are written down.

use carillon_sim::faults::{Applied, Fate, Reply};
use carillon_sim::{Call, Status};
use serde::{Deserialize, Serialize};

use crate::blow::Point;

/// What happens to the next requests of a kind.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// RBAC's word, such as `create`.
    pub verb: String,
    /// Plural and group, and `/status` for the status: `pods`, `broadcastjobs.carillon.dev/status`.
    pub resource: String,
    /// Only requests whose body has this text.
    #[serde(default)]
    pub containing: String,
    /// How many requests it meets. Dry runs are not met.
    pub times: usize,
    /// What happens.
    pub what: What,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// It is answered with this code and not applied.
    Refused(u16),
    /// It is answered with 429 and is to wait for so many seconds.
    Busy(u32),
    /// It is applied and answered with this code all the same, as by a proxy that gave up.
    AppliedAndAnswered(u16),
    /// It is applied and the connection breaks before the reply.
    ReplyLost,
    /// The process that sends it is killed.
    Killed(Point),
}

impl Fault {
    /// The next `times` requests of this verb and resource meet `what`.
    pub fn new(verb: &str, resource: &str, times: usize, what: What) -> Self {
        Self {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            containing: String::new(),
            times,
            what,
        }
    }

    /// Only those whose body has `text`.
    #[must_use]
    pub fn containing(mut self, text: &str) -> Self {
        text.clone_into(&mut self.containing);
        self
    }

    fn meets(&self, call: &Call) -> bool {
        let resource = match &*call.subresource {
            "" => call.resource(),
            part => format!("{}/{part}", call.resource()),
        };
        let text = || call.body.as_ref().map(ToString::to_string);
        self.times > 0
            && self.verb == call.verb
            && self.resource == resource
            && !call.uri.contains("dryRun=")
            && (self.containing.is_empty()
                || text().is_some_and(|text| text.contains(&self.containing)))
    }
}

/// What the first fault that meets the request does to it; it meets one less from now on.
pub fn strike(faults: &mut [Fault], call: &Call) -> Option<What> {
    let fault = faults.iter_mut().find(|fault| fault.meets(call))?;
    fault.times -= 1;
    Some(fault.what)
}

/// A request that is answered with `code`.
pub fn answered(call: &Call, code: u16, apply: Applied) -> Fate {
    let resource = call.resource();
    let status = match code {
        403 => Status::forbidden(&resource, &call.name, "not now"),
        409 => Status::conflict(&resource, &call.name, "the object has been modified"),
        429 => Status::too_many_requests(1),
        503 => Status::unavailable(),
        504 => Status::timeout(),
        _ => Status {
            code,
            ..Status::internal("injected")
        },
    };
    Fate {
        apply,
        reply: Reply::Status(status),
        ..Fate::pass()
    }
}
