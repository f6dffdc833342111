//! Who is answered: a browser that was given the address, and no page of another origin.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Bytes of a token.
const BYTES: usize = 16;

/// What the address has in it that nobody can guess.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// A new one.
    pub(super) fn random() -> std::io::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(format!("{:032x}", u128::from_ne_bytes(bytes))))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes as long for a wrong one as for the right one.
    fn is(&self, other: &str) -> bool {
        let pairs = self.0.bytes().zip(other.bytes());
        self.0.len() == other.len() && pairs.fold(0, |found, (a, b)| found | (a ^ b)) == 0
    }
}

#[derive(Debug)]
pub(super) struct Guard {
    pub(super) token: Token,
    pub(super) port: u16,
}

impl Guard {
    /// Why a request is refused, if it is.
    fn refusal(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<(StatusCode, &'static str)> {
        let text = |name: &header::HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        // Browsers leave the port of http out.
        let port = match self.port {
            80 => String::new(),
            port => format!(":{port}"),
        };
        let hosts = [format!("127.0.0.1{port}"), format!("localhost{port}")];
        // A name of somebody else's that leads here is not us.
        let host = text(&header::HOST);
        if !hosts.iter().any(|name| host == Some(name.as_bytes())) {
            return Some((
                StatusCode::MISDIRECTED_REQUEST,
                "this is no proxy: open the address that was printed",
            ));
        }
        let origins = hosts.map(|host| format!("http://{host}"));
        let origin = text(&header::ORIGIN);
        let is_ours = |origin| origins.iter().any(|ours| origin == ours.as_bytes());
        if origin.is_some_and(|origin| !is_ours(origin)) {
            return Some((
                StatusCode::FORBIDDEN,
                "a page of another origin has no business here",
            ));
        }
        // Every browser says where what changes something comes from.
        if *method != Method::GET && origin.is_none() {
            return Some((StatusCode::FORBIDDEN, "the header Origin is missing"));
        }
        let token = path
            .trim_start_matches('/')
            .split('/')
            .next()
            .unwrap_or_default();
        if !self.token.is(token) {
            return Some((
                StatusCode::NOT_FOUND,
                "open the address that kubectl carillon dashboard has printed",
            ));
        }
        None
    }
}

/// Everything comes from here, nothing is kept, and nobody may frame it. Scripts cannot write markup at all.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
];

pub(super) async fn check(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let refusal = guard.refusal(request.method(), request.uri().path(), request.headers());
    let mut response = match refusal {
        Some((code, why)) => (code, format!("{why}\n")).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    type Header<'v> = (&'static str, &'v str);

    fn refused(method: &Method, path: &str, headers: &[Header<'_>]) -> Option<u16> {
        let guard = Guard {
            token: Token("secret".to_owned()),
            port: 7,
        };
        let headers = headers.iter().map(|(name, value)| {
            (
                header::HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        });
        let refusal = guard.refusal(method, path, &headers.collect());
        refusal.map(|(code, _)| code.as_u16())
    }

    #[test]
    fn only_who_has_the_address_is_answered() {
        let host = ("host", "127.0.0.1:7");
        let cases: [(&str, &[Header<'_>], Option<u16>); 9] = [
            ("/secret/", &[host], None),
            ("/secret/", &[("host", "localhost:7")], None),
            (
                "/secret/api/stream",
                &[host, ("origin", "http://127.0.0.1:7")],
                None,
            ),
            ("/", &[host], Some(404)),
            ("/secrets/", &[host], Some(404)),
            ("/secre/", &[host], Some(404)),
            // A name that somebody lets lead here, and a page of somebody else's.
            ("/secret/", &[("host", "evil.example:7")], Some(421)),
            ("/secret/", &[("host", "127.0.0.1:8")], Some(421)),
            (
                "/secret/",
                &[host, ("origin", "http://evil.example")],
                Some(403),
            ),
        ];
        for (path, headers, expected) in cases {
            assert_eq!(
                refused(&Method::GET, path, headers),
                expected,
                "{path} {headers:?}"
            );
        }
        assert_eq!(refused(&Method::GET, "/secret/", &[]), Some(421));
    }

    #[test]
    fn nothing_is_changed_by_a_request_that_does_not_say_where_it_comes_from() {
        let host = ("host", "127.0.0.1:7");
        let act = |headers: &[Header<'_>]| refused(&Method::POST, "/secret/api/act", headers);
        assert_eq!(act(&[host]), Some(403));
        assert_eq!(act(&[host, ("origin", "null")]), Some(403));
        assert_eq!(act(&[host, ("origin", "http://localhost:7")]), None);
    }

    #[test]
    fn tokens_are_long_and_each_is_another() {
        let (one, two) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.as_str().len(), 32);
        assert_ne!(one.as_str(), two.as_str());
    }
}
