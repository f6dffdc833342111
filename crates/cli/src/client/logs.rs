//! Logs of pods.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use anyhow::Result;
use futures::{AsyncBufRead, AsyncBufReadExt};
use http::Request;
use serde_json::Value;
use tokio::time::timeout;

use super::{Answer, Api, Asked, PODS, code, not_found};
use crate::problem;

/// After so long without a byte there is no log, unless it is followed: others wait for their turn.
const SILENT: Duration = Duration::from_secs(30);
/// A longer line is printed as several.
const LONGEST_LINE: usize = 1 << 20;

/// Which part of a log.
pub(crate) struct LogOptions<'a> {
    pub(crate) container: &'a str,
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    /// Lines from its end; all when `None`.
    pub(crate) tail: Option<u32>,
    pub(crate) follow: bool,
}

/// What became of the reading of a log.
pub(crate) enum Reading {
    /// It was read to its end.
    Done,
    /// Nobody wants more of it.
    Unwanted,
    /// Why there is none, or no more.
    Failed(String),
    /// Whoever asks may not read logs.
    NotAllowed,
}

impl Api {
    /// A pod of the namespace.
    pub(crate) async fn pod(&self, name: &str) -> Result<Asked<Value>> {
        let pod = self.object(PODS, name).await;
        self.asked(pod, &format!("reading pod {name}")).await
    }

    /// Gives each line of a log to `line`, until that breaks off.
    pub(crate) async fn log(
        &self,
        pod: &str,
        options: &LogOptions<'_>,
        mut line: impl FnMut(&str) -> Result<ControlFlow<()>>,
    ) -> Result<Reading> {
        let silent = || Reading::Failed(format!("nothing came within {SILENT:?}"));
        let lines = match timeout(SILENT, self.log_lines(pod, options)).await {
            Err(_) => return Ok(silent()),
            Ok(Ok(lines)) => lines,
            Ok(Err(error)) if code(&error) == Some(403) => return Ok(Reading::NotAllowed),
            Ok(Err(kube::Error::Api(status))) => {
                return Ok(Reading::Failed(problem::words(&status)));
            }
            Ok(Err(error)) => {
                let error = self.explain(error, "the log").await;
                return Ok(Reading::Failed(format!("{error:#}")));
            }
        };
        let mut lines = pin!(lines);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let next = read_line(&mut lines, &mut bytes);
            let next = if options.follow {
                next.await
            } else {
                match timeout(SILENT, next).await {
                    Ok(next) => next,
                    Err(_) => return Ok(silent()),
                }
            };
            match next {
                Ok(()) if bytes.is_empty() => return Ok(Reading::Done),
                Ok(()) => {
                    if line(text(&bytes).as_ref())?.is_break() {
                        return Ok(Reading::Unwanted);
                    }
                }
                Err(error) => return Ok(Reading::Failed(format!("the log breaks off: {error}"))),
            }
        }
    }

    async fn log_lines(&self, pod: &str, options: &LogOptions<'_>) -> Answer<impl AsyncBufRead> {
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
        self.streams
            .request_stream(request.map_err(kube::Error::HttpError)?)
            .await
    }
}

/// Reads up to the end of a line, or as much as one may have. Nothing is read at the end.
async fn read_line(
    lines: &mut (impl AsyncBufRead + Unpin),
    bytes: &mut Vec<u8>,
) -> std::io::Result<()> {
    while bytes.len() < LONGEST_LINE {
        let read = lines.fill_buf().await?;
        let end = read.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(read.len(), |end| end + 1);
        bytes.extend_from_slice(&read[..taken]);
        lines.consume_unpin(taken);
        if taken == 0 || end.is_some() {
            break;
        }
    }
    Ok(())
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

    #[tokio::test]
    async fn a_line_that_does_not_end_is_read_in_pieces() {
        let mut log = vec![b'x'; LONGEST_LINE + 9];
        log.extend_from_slice(b"\nnext\nlast");
        let mut reader = futures::io::BufReader::new(futures::io::Cursor::new(log));
        let mut lengths = Vec::new();
        loop {
            let mut bytes = Vec::new();
            read_line(&mut reader, &mut bytes).await.expect("read");
            if bytes.is_empty() {
                break;
            }
            lengths.push(bytes.len());
        }
        assert!(lengths[0] >= LONGEST_LINE, "{lengths:?}");
        assert_eq!(lengths.iter().sum::<usize>(), LONGEST_LINE + 19);
        assert_eq!(lengths[lengths.len() - 2..], [5, 4]);
    }
}
