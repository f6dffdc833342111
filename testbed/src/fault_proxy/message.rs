//! HTTP/1.1 messages, as far as a proxy has to understand them.

use std::fmt::Write as _;
use std::io::BufRead;

use anyhow::{Context, Result, ensure};

/// A head is small; a line this long is not HTTP.
const LINE_LIMIT: u64 = 64 * 1024;

/// The first line and the headers of a message.
#[derive(Debug)]
pub(crate) struct Head {
    first: String,
    headers: Vec<(String, String)>,
    /// First word: the method of a request.
    pub(crate) method: String,
    /// Second word: path and query of a request, code of a response.
    pub(crate) path: String,
}

impl Head {
    /// `None` when the peer closed instead.
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Option<Self>> {
        let first = line(from)?;
        if first.is_empty() {
            return Ok(None);
        }
        let mut headers = Vec::new();
        loop {
            let text = line(from)?;
            if text.is_empty() {
                break;
            }
            let (name, value) = text.split_once(':').context("a header has a colon")?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let word = |index| first.split(' ').nth(index).unwrap_or_default().to_owned();
        let (method, path) = (word(0), word(1));
        Ok(Some(Self {
            first,
            headers,
            method,
            path,
        }))
    }

    /// The code of a response.
    pub(crate) fn code(&self) -> Option<u16> {
        self.path.parse().ok()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The head as sent on: this connection ends after one exchange.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.headers {
            if name != "connection" {
                let _ = write!(text, "{name}: {value}\r\n");
            }
        }
        text.push_str("connection: close\r\n\r\n");
        text.into_bytes()
    }
}

/// A request with its body.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// As it was sent, chunks and all.
    body: Vec<u8>,
}

impl Request {
    /// `None` when the peer closed instead.
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Option<Self>> {
        let Some(head) = Head::read(from)? else {
            return Ok(None);
        };
        let mut body = Vec::new();
        if let Some(length) = head.header("content-length") {
            body.resize(length.parse().context("a content-length is a number")?, 0);
            from.read_exact(&mut body)?;
        } else if head.header("transfer-encoding").is_some() {
            chunks(from, &mut body)?;
        }
        Ok(Some(Self { head, body }))
    }

    /// Its body, as it was sent.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether it changes something, leases and events apart.
    pub(crate) fn is_write(&self) -> bool {
        let Head { method, path, .. } = &self.head;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let apart = ["events", "leases"];
        ["POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str())
            && !path.split('/').any(|part| apart.contains(&part))
            && !query.split('&').any(|pair| pair.starts_with("dryRun="))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.to_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Reads a chunked body up to its end, as it is.
fn chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> Result<()> {
    loop {
        let size = line(from)?;
        let digits = size.split(';').next().unwrap_or_default().trim();
        let length = usize::from_str_radix(digits, 16).context("a chunk has a length")?;
        body.extend_from_slice(format!("{size}\r\n").as_bytes());
        let start = body.len();
        // The line end of the chunk comes with it; after the last there are no trailers.
        body.resize(start + length + 2, 0);
        from.read_exact(&mut body[start..])?;
        if length == 0 {
            return Ok(());
        }
    }
}

/// One line without its end; empty at the end of the stream, too.
fn line(from: &mut impl BufRead) -> Result<String> {
    let mut text = String::new();
    std::io::Read::take(&mut *from, LINE_LIMIT).read_line(&mut text)?;
    ensure!(
        text.is_empty() || text.ends_with('\n'),
        "a line was cut off"
    );
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<Option<Request>> {
        Request::read(&mut text.as_bytes())
    }

    #[test]
    fn a_request_is_passed_on_as_it_came_but_for_the_connection() {
        for body in [
            "content-length: 5\r\n\r\nhello",
            "transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        ] {
            let (headers, rest) = body.split_once("\r\n\r\n").expect("a head");
            let text =
                format!("POST /api/v1/pods HTTP/1.1\r\nConnection: keep-alive\r\n{body}more");
            let read = request(&text).expect("read").expect("there");
            let expected = format!(
                "POST /api/v1/pods HTTP/1.1\r\n{headers}\r\nconnection: close\r\n\r\n{rest}"
            );
            assert_eq!(String::from_utf8_lossy(&read.to_bytes()), expected);
        }
    }

    #[test]
    fn a_request_that_was_cut_off_is_no_request() {
        assert!(request("").expect("closed").is_none());
        assert!(request("POST / HTT").is_err());
        assert!(request("POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhel").is_err());
    }

    #[test]
    fn reads_dry_runs_leases_and_events_are_no_writes() {
        let write = |line: &str| {
            let text = format!("{line} HTTP/1.1\r\n\r\n");
            request(&text).expect("read").expect("there").is_write()
        };
        assert!(write("POST /api/v1/namespaces/a/pods"));
        assert!(write("DELETE /api/v1/namespaces/a/pods/b"));
        assert!(!write("GET /api/v1/namespaces/a/pods"));
        assert!(!write("POST /api/v1/namespaces/a/pods?dryRun=All"));
        assert!(!write("POST /apis/events.k8s.io/v1/namespaces/a/events"));
        assert!(!write(
            "PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/l"
        ));
    }
}
