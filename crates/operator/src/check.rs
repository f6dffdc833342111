//! `carillon check --url URL`: asks once a second until the answer is good or the time is up.
//!
//! For the pod of `helm test`: the image holds no other program that could ask. No kubeconfig, no TLS.

use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::transport::error::causes;

const EVERY: Duration = Duration::from_secs(1);
/// A server that accepts and says nothing must not use up the whole time.
const ONE_TRY: Duration = Duration::from_secs(5);
/// `/readyz?verbose` is a few lines; what is longer is not ours.
const LONGEST: usize = 64 * 1024;

/// Flags of `carillon check`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Check {
    /// What to GET, such as http://carillon-metrics:8080/readyz.
    #[arg(long, value_parser = url)]
    url: Uri,

    /// How long to go on trying.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = crate::args::duration::duration)]
    timeout: Duration,
}

fn url(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
    if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
        return Err("write http://HOST:PORT/PATH".to_owned());
    }
    Ok(uri)
}

impl Check {
    /// Asks until an answer is 2xx, which is printed, or until the time is up; then the last
    /// answer, or why there was none, is printed and the code is 1.
    pub async fn run(&self) -> ExitCode {
        match self.ask_until_good(Instant::now() + self.timeout).await {
            Ok(body) => {
                print!("{body}");
                ExitCode::SUCCESS
            }
            Err(last) => {
                let Self { url, timeout } = self;
                eprintln!("carillon: {url}: not so within {timeout:?}: {last}");
                ExitCode::FAILURE
            }
        }
    }

    async fn ask_until_good(&self, end: Instant) -> Result<String, String> {
        loop {
            let begin = Instant::now();
            let last = match timeout_at(end.min(begin + ONE_TRY), self.ask()).await {
                Ok(Ok((status, body))) if status.is_success() => return Ok(body),
                Ok(Ok((status, body))) => format!("{status}\n{body}"),
                Ok(Err(error)) => error,
                Err(_) => format!("no answer within {:.1?}", begin.elapsed()),
            };
            if begin + EVERY >= end {
                return Err(last);
            }
            sleep_until(begin + EVERY).await;
        }
    }

    async fn ask(&self) -> Result<(http::StatusCode, String), String> {
        // A new connection each time: behind a Service that may be another replica.
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let response = client.get(self.url.clone()).await;
        let (parts, body) = response.map_err(|error| causes(&error))?.into_parts();
        let body = Limited::new(body, LONGEST).collect().await;
        let body = body.map_err(|error| causes(&*error))?.to_bytes();
        Ok((parts.status, String::from_utf8_lossy(&body).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::{Router, routing::get};

    use super::*;

    fn check(url: &str, timeout: Duration) -> Check {
        let url = super::url(url).unwrap();
        Check { url, timeout }
    }

    async fn ask(check: &Check) -> Result<String, String> {
        check.ask_until_good(Instant::now() + check.timeout).await
    }

    /// Says no once, then yes; gives its address.
    async fn server() -> String {
        let asked = Arc::new(AtomicBool::new(false));
        let answer = move || async move {
            if asked.swap(true, Ordering::Relaxed) {
                (http::StatusCode::OK, "ready\n")
            } else {
                (http::StatusCode::SERVICE_UNAVAILABLE, "not yet\n")
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/readyz", get(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn a_check_tries_again_until_the_answer_is_good() {
        let url = format!("{}/readyz?verbose", server().await);
        let body = ask(&check(&url, Duration::from_secs(30))).await;
        assert_eq!(body.as_deref(), Ok("ready\n"));
    }

    #[tokio::test]
    async fn a_check_that_fails_says_what_it_was_told_last() {
        let server = server().await;
        let refused = ask(&check(&format!("{server}/readyz"), Duration::ZERO)).await;
        assert!(refused.is_err(), "{refused:?}");
        let absent = ask(&check(&format!("{server}/nowhere"), EVERY)).await;
        assert!(absent.unwrap_err().contains("404"));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_a_failure() {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", free.local_addr().unwrap());
        drop(free);
        let error = ask(&check(&url, EVERY)).await.unwrap_err();
        assert!(error.to_lowercase().contains("refused"), "{error}");
    }

    #[test]
    fn only_plain_http_is_asked() {
        for wrong in ["https://a/", "a:8080/readyz", "/readyz", "http:///x", ""] {
            assert!(url(wrong).is_err(), "{wrong:?} is accepted");
        }
    }
}
