//! Logs of pods.

use std::borrow::Cow;
use std::pin::pin;

use anyhow::Result;
use futures::AsyncBufReadExt;
use http::Request;
use serde_json::Value;

use super::{Answer, Api, Asked, PODS, not_found};
use crate::problem;

/// Which part of a log.
pub(crate) struct LogOptions<'a> {
    pub(crate) container: &'a str,
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    /// Lines from its end; all when `None`.
    pub(crate) tail: Option<u32>,
    pub(crate) follow: bool,
}

impl Api {
    /// A pod of the namespace.
    pub(crate) async fn pod(&self, name: &str) -> Result<Asked<Value>> {
        let pod = self.object(PODS, name).await;
        self.asked(pod, &format!("reading pod {name}")).await
    }

    /// Gives each line of a log to `line`. The inner error is why there is none, in the API server's words.
    pub(crate) async fn log(
        &self,
        pod: &str,
        options: &LogOptions<'_>,
        mut line: impl FnMut(&str) -> Result<()>,
    ) -> Result<Result<(), String>> {
        let lines = match self.log_lines(pod, options).await {
            Ok(lines) => lines,
            Err(kube::Error::Api(status)) => return Ok(Err(problem::words(&status))),
            Err(error) => return Err(self.explain(error, &format!("the log of {pod}")).await),
        };
        let mut lines = pin!(lines);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match lines.read_until(b'\n', &mut bytes).await {
                Ok(0) => return Ok(Ok(())),
                Ok(_) => line(text(&bytes).as_ref())?,
                // The logs of other nodes are read all the same.
                Err(error) => return Ok(Err(format!("the log breaks off: {error}"))),
            }
        }
    }

    async fn log_lines(
        &self,
        pod: &str,
        options: &LogOptions<'_>,
    ) -> Answer<impl futures::AsyncBufRead> {
        let tail = options.tail.map(|lines| lines.to_string());
        // A flag without a value is true.
        let flag = |on: bool| on.then(|| "true".to_owned());
        let asked = [
            ("previous", flag(options.previous)),
            ("timestamps", flag(options.timestamps)),
            ("follow", flag(options.follow)),
            ("tailLines", tail),
        ];
        let path = self.path(PODS, pod).map(|path| {
            let path = path.subresource("log").with("container", options.container);
            let asked = asked
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            asked.fold(path, |path, (name, value)| path.with(name, &value))
        });
        let path = path.map_err(|error| not_found(&error))?;
        let request = Request::builder().uri(path.as_str()).body(Vec::new());
        self.client
            .request_stream(request.map_err(kube::Error::HttpError)?)
            .await
    }
}

/// A line without its end. Containers print what they like.
fn text(line: &[u8]) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_whatever_bytes_are_in_it() {
        for (line, shown) in [
            (&b"plain\n"[..], "plain"),
            (b"from elsewhere\r\n", "from elsewhere"),
            (b"caf\xe9\n", "caf\u{fffd}"),
            (b"cut", "cut"),
            (b"\n", ""),
        ] {
            assert_eq!(text(line), shown);
        }
    }
}
