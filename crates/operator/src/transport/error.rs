//! What calls that failed say.

use std::error::Error as StdError;

use http::StatusCode;
use kube::core::Status;

use crate::protobuf::{self, STATUS};

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The API server refused it.
    #[error("{} ({})", .0.message, .0.code)]
    Api(Box<Status>),
    /// No complete reply came.
    #[error("{0}")]
    Failed(String),
}

/// What the API server said, also when it (or a proxy before it) did not say it as a Status.
pub(crate) fn status_of(code: StatusCode, body: &[u8]) -> Status {
    let status = protobuf::read_reply(body, &STATUS).ok();
    let mut status = status.filter(Status::is_failure).unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(body).chars().take(256).collect();
        Status::failure(text.trim(), "")
    });
    status.code = code.as_u16();
    if status.reason.is_empty() {
        let reason = match status.code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            _ => "",
        };
        reason.clone_into(&mut status.reason);
    }
    status
}

/// An error with its causes: hyper's own text is only "client error (Connect)".
pub(crate) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let part = cause.to_string();
        if !text.ends_with(&part) {
            text = format!("{text}: {part}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_reason_even_when_a_proxy_wrote_it() {
        let plain = status_of(StatusCode::NOT_FOUND, b"404 page not found\n");
        assert_eq!(
            (plain.code, &*plain.reason, &*plain.message),
            (404, "NotFound", "404 page not found")
        );
        let status = status_of(
            StatusCode::CONFLICT,
            br#"{"kind":"Status","status":"Failure","reason":"AlreadyExists","message":"m","code":409}"#,
        );
        assert_eq!((status.code, &*status.reason), (409, "AlreadyExists"));
        assert_eq!(status_of(StatusCode::BAD_GATEWAY, b"").code, 502);
    }
}
