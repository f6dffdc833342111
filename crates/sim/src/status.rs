//! Refusals, as the API server words them.

use std::fmt;

use serde_json::{Value, json};

/// A `metav1.Status` that says no.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// `AlreadyExists`, `Conflict`, ….
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// `details`, or null.
    pub details: Value,
    /// Value of the header Retry-After.
    pub retry_after: Option<u32>,
}

impl Status {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            retry_after: None,
        }
    }

    /// Asks the client to come again after so many seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        if !self.details.is_object() {
            self.details = json!({});
        }
        self.details["retryAfterSeconds"] = json!(seconds);
        self
    }

    /// 429.
    pub fn too_many_requests(seconds: u32) -> Self {
        let message = "Too many requests, please try again later.";
        Self::new(429, "TooManyRequests", message).retry_after(seconds)
    }

    /// 500.
    pub fn internal(message: &str) -> Self {
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
    }

    /// 503.
    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request";
        Self::new(503, "ServiceUnavailable", message)
    }

    /// 504.
    pub fn timeout() -> Self {
        Self::new(504, "Timeout", "Timeout: request did not complete")
    }

    /// 409 as after somebody else's write.
    pub fn conflict(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// 403 of an admission plugin or of RBAC.
    pub fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{resource} \"{name}\" is forbidden: {why}");
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 404 of an object.
    pub fn not_found(resource: &str, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" not found");
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// 404 of a path.
    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, "NotFound", message)
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    /// 409 of a name that is taken.
    pub(crate) fn already_exists(resource: &str, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" already exists");
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// 410 of a revision that was compacted.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 415 of a patch of a type that the resource does not take.
    pub(crate) fn unsupported_media_type(found: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - {found} is not accepted here"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 504 of a revision that is still to come.
    pub(crate) fn too_large_revision(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut status = Self::new(504, "Timeout", message).retry_after(1);
        status.details["causes"] = json!([
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]);
        status
    }

    /// 422.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let texts: Vec<String> = causes.iter().map(Cause::to_string).collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let resource = qualified(kind, group);
        let message = format!("{resource} \"{name}\" is invalid: {list}");
        let mut status = Self::new(422, "Invalid", message);
        status.details = json!({
            "kind": kind,
            "causes": causes.iter().map(|cause| json!({
                "reason": cause.reason,
                "message": cause.message,
                "field": cause.field,
            })).collect::<Vec<_>>(),
        });
        for (field, value) in [("group", group), ("name", name)] {
            if !value.is_empty() {
                status.details[field] = json!(value);
            }
        }
        status
    }

    /// Fills `details` from a qualified resource, such as `broadcastjobs.carillon.dev`.
    fn about(mut self, resource: &str, name: &str) -> Self {
        let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.details = json!({"name": name, "kind": kind});
        if !group.is_empty() {
            self.details["group"] = json!(group);
        }
        self
    }

    /// The object on the wire.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            body["details"] = self.details.clone();
        }
        body
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.message, self.code, self.reason)
    }
}

impl std::error::Error for Status {}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn new(
        reason: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            reason,
            field: field.into(),
            message: message.into(),
        }
    }

    pub(crate) fn invalid(field: impl Into<String>, found: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {found}: {why}");
        Self::new("FieldValueInvalid", field, message)
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    pub(crate) fn required(field: impl Into<String>) -> Self {
        Self::new("FieldValueRequired", field, "Required value")
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// `kind.group`, or the kind alone for core.
pub(crate) fn qualified(kind: &str, group: &str) -> String {
    if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{group}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_it_is_about() {
        let body = Status::already_exists("broadcastjobs.carillon.dev", "a").body();
        assert_eq!(
            body["message"],
            "broadcastjobs.carillon.dev \"a\" already exists"
        );
        assert_eq!(
            body["details"],
            json!({"name": "a", "kind": "broadcastjobs", "group": "carillon.dev"})
        );
        let body = Status::not_found("pods", "a").body();
        assert_eq!(body["details"], json!({"name": "a", "kind": "pods"}));
    }

    #[test]
    fn what_is_invalid_is_listed() {
        let causes = [Cause::required("spec.a"), Cause::required("spec.b")];
        let status = Status::invalid("", "Pod", "a", &causes);
        assert_eq!(
            status.message,
            "Pod \"a\" is invalid: [spec.a: Required value, spec.b: Required value]"
        );
        assert_eq!(status.body()["details"]["causes"][1]["field"], "spec.b");
    }
}
