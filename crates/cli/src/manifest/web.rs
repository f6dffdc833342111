//! Manifests from the web.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use http::header::LOCATION;
use http::uri::Scheme;
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tokio::time::timeout;

use crate::proxy;

/// Bytes of a manifest, at most.
const LARGEST: usize = 4 << 20;
/// How often a server may send whoever asks elsewhere.
const REDIRECTS: usize = 5;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a file is one of the web.
pub(super) fn is_url(file: &str) -> bool {
    let scheme = file
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| scheme == "https" || scheme == "http")
}

/// The text at a URL. Nothing of the kubeconfig is sent there.
pub(super) async fn fetch(url: &str) -> Result<String> {
    let fetched = timeout(PATIENCE, follow(url)).await;
    fetched.map_err(|_| anyhow!("{url}: no answer within {PATIENCE:?}"))?
}

async fn follow(url: &str) -> Result<String> {
    let mut at: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
    let first = at.scheme().cloned();
    for _ in 0..=REDIRECTS {
        check(&at)?;
        if at.scheme() != first.as_ref() {
            bail!(
                "{url}: the server sends to {at}, which is of another scheme: name that one if you trust it"
            );
        }
        let reply = client(&at)?.send(request(&at)?).await;
        let reply = reply.with_context(|| format!("{at} cannot be read"))?;
        let status = reply.status();
        if status.is_redirection() {
            let to = reply
                .headers()
                .get(LOCATION)
                .and_then(|to| to.to_str().ok());
            at = elsewhere(&at, to.unwrap_or_default())?;
            continue;
        }
        if !status.is_success() {
            bail!("{at}: the server answered {status}");
        }
        let body = Limited::new(reply.into_body(), LARGEST).collect().await;
        let body =
            body.map_err(|error| anyhow!("{at}: {error}; at most {LARGEST} bytes are read"))?;
        let text = String::from_utf8(body.to_bytes().to_vec());
        return text.with_context(|| format!("{at} is no text"));
    }
    bail!("{url}: the server has sent elsewhere {REDIRECTS} times")
}

/// What is not encrypted may be changed on its way: it may only come from this machine.
fn check(at: &Uri) -> Result<()> {
    let authority = at
        .authority()
        .with_context(|| format!("{at} names no server"))?;
    if authority.as_str().contains('@') {
        bail!("{}: a URL with a user in it is not read", authority.host());
    }
    let here = proxy::is_here(authority.host());
    match at.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => Ok(()),
        Some(scheme) if *scheme == Scheme::HTTP && here => Ok(()),
        _ => bail!("{at}: use https; http is only for this machine"),
    }
}

fn client(at: &Uri) -> Result<Client> {
    let mut base = at.clone().into_parts();
    base.path_and_query = Some("/".parse()?);
    let mut config = Config::new(Uri::from_parts(base)?);
    config.proxy_url = proxy::of(at)?;
    Ok(ClientBuilder::try_from(config)?.build())
}

fn request(at: &Uri) -> Result<Request<Body>> {
    let path = at.path_and_query().map_or("/", |path| path.as_str());
    Ok(Request::get(path).body(Body::empty())?)
}

/// Where a server sends whoever asks: another place, or another path there.
fn elsewhere(at: &Uri, to: &str) -> Result<Uri> {
    let mut parts = at.clone().into_parts();
    if to.starts_with('/') && !to.starts_with("//") {
        parts.path_and_query = Some(to.parse()?);
        return Ok(Uri::from_parts(parts)?);
    }
    if is_url(to) {
        return to
            .parse()
            .with_context(|| format!("{at} sends to {to:?}, which is no URL"));
    }
    bail!("{at} sends to {to:?}, which is no URL")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_url_is_told_from_a_file() {
        for url in [
            "https://example.com/a.yaml",
            "http://127.0.0.1:1/",
            "HTTPS://x",
        ] {
            assert!(is_url(url), "{url}");
        }
        for file in ["a.yaml", "-", "https.yaml", "dir/https://", "ftp://x/y", ""] {
            assert!(!is_url(file), "{file}");
        }
    }

    #[test]
    fn only_what_is_encrypted_or_of_this_machine_is_read() {
        let allowed = |url: &str| check(&url.parse().unwrap()).is_ok();
        for url in [
            "https://example.com/a.yaml",
            "http://127.0.0.1:80/a",
            "http://127.9.9.9/a",
            "http://localhost/a",
            "http://[::1]:9/a",
        ] {
            assert!(allowed(url), "{url}");
        }
        for url in [
            "http://example.com/a",
            "http://10.0.0.1/a",
            "http://127.0.0.1.example.com/a",
            "https://jane:secret@example.com/a",
            "/a.yaml",
        ] {
            assert!(!allowed(url), "{url}");
        }
    }

    /// A server that gives these answers, one to each who asks, by path.
    fn server(answer: fn(&str) -> String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut asked = [0; 4096];
                let length = stream.read(&mut asked).unwrap_or(0);
                let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
                let path = asked.split(' ').nth(1).unwrap_or_default();
                // Whoever has read enough closes.
                let _ = stream.write_all(answer(path).as_bytes());
            }
        });
        format!("http://{address}")
    }

    fn reply(path: &str) -> String {
        let with = |status: &str, header: &str, body: &str| {
            format!(
                "HTTP/1.1 {status}\r\n{header}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            )
        };
        match path {
            "/a.yaml?x=1" => with("200 OK", "", "kind: List\n"),
            "/moved" => with("302 Found", "Location: /a.yaml?x=1\r\n", ""),
            "/round" => with("302 Found", "Location: /round\r\n", ""),
            "/away" => with("302 Found", "Location: http://example.com/a\r\n", ""),
            "/large" => with("200 OK", "", &"x".repeat(LARGEST + 1)),
            _ => with("404 Not Found", "", "no"),
        }
    }

    #[tokio::test]
    async fn a_manifest_is_read_within_bounds_and_errors_say_what_came() {
        let at = server(reply);
        for path in ["/a.yaml?x=1", "/moved"] {
            assert_eq!(
                fetch(&format!("{at}{path}")).await.unwrap(),
                "kind: List\n",
                "{path}"
            );
        }
        for (path, says) in [
            ("/none", "404"),
            ("/round", "elsewhere 5 times"),
            ("/away", "use https"),
            ("/large", "at most"),
        ] {
            let error = fetch(&format!("{at}{path}")).await.unwrap_err();
            let said = format!("{error:#}");
            assert!(said.contains(says), "{path}: {said}");
        }
        let closed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let nobody = fetch(&format!("http://{closed}/a")).await.unwrap_err();
        assert!(
            format!("{nobody:#}").contains("cannot be read"),
            "{nobody:#}"
        );
    }
}
