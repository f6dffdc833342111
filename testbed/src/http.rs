//! A plain HTTP GET or POST on loopback: enough for Prometheus, etcd's gateway and `/metrics`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A response: status code and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code, for example 200.
    pub status: u16,
    /// The body as text.
    pub body: String,
}

/// GETs `http://127.0.0.1:port{path}`. Times out after 30 seconds of silence.
pub fn get(port: u16, path: &str) -> Result<Response> {
    send(port, "GET", path, "")
}

/// POSTs a JSON body to `http://127.0.0.1:port{path}`.
pub fn post(port: u16, path: &str, body: &str) -> Result<Response> {
    send(port, "POST", path, body)
}

fn send(port: u16, method: &str, path: &str, body: &str) -> Result<Response> {
    let what = || format!("{method} http://127.0.0.1:{port}{path}");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).with_context(what)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // HTTP/1.0: the server closes at the end and does not use chunks.
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).with_context(what)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).with_context(what)?;
    parse(&String::from_utf8_lossy(&bytes)).with_context(what)
}

fn parse(text: &str) -> Result<Response> {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        bail!(
            "not an HTTP response: {:?}",
            text.chars().take(80).collect::<String>()
        );
    };
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("no status in {:?}", head.lines().next()))?;
    Ok(Response {
        status,
        body: body.to_owned(),
    })
}

/// `text` with everything that is not plain in a query string written as `%XX`.
pub fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(b"0123456789ABCDEF"[usize::from(byte >> 4)]));
            out.push(char::from(b"0123456789ABCDEF"[usize::from(byte & 15)]));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_status_and_body() {
        let got = parse("HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\nnot\r\n\r\nyet");
        let expected = Response {
            status: 503,
            body: "not\r\n\r\nyet".into(),
        };
        assert_eq!(got.ok(), Some(expected));
        assert!(parse("nonsense").is_err());
    }

    #[test]
    fn a_query_is_encoded() {
        assert_eq!(
            percent_encode("up{a=\"b\"} > 0"),
            "up%7Ba%3D%22b%22%7D%20%3E%200"
        );
    }
}
