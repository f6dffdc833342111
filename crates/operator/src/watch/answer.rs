//! What the API server answers, as it arrives.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;

use crate::fence::RequestBody;
use crate::transport::{ResponseBody, Transport, bounded, causes, status_of};

/// How long to wait for a page, or for a watch to open.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_mins(1);

/// The body of the answer, if it is no refusal.
pub(super) async fn open(
    transport: &Transport,
    request: Request<RequestBody>,
) -> Result<ResponseBody, String> {
    let response = transport.call(request).await.map_err(|e| causes(&*e))?;
    let code = response.status();
    if code.is_success() {
        return Ok(response.into_body());
    }
    let text = bounded(response.into_body()).collect().await;
    let text = text.map_err(|e| causes(&*e))?.to_bytes();
    // 410: the list took longer than the server remembers; it is started over.
    let status = status_of(code, &text);
    let remedy = if code == StatusCode::NOT_FOUND {
        ": install its CRD, or leave its controller out with --controllers"
    } else {
        ""
    };
    Err(format!("{} ({code}){remedy}", status.message))
}

/// The next part of a body; `None` after the last.
pub(super) async fn next_chunk(body: &mut ResponseBody) -> Result<Option<Bytes>, String> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(causes(&*error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
