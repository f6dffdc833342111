//! Paths of the API server. No text gets into one that could lead elsewhere: a name stays one segment.

use std::fmt::{self, Write as _};

/// Bytes that the name of an object has at most.
const LONGEST: usize = 253;
/// Of a text that is refused, so much is shown.
const SHOWN: usize = 64;

/// Why a text is no segment of a path. No object can have such a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NoSegment {
    found: String,
    why: &'static str,
}

impl fmt::Display for NoSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, why } = self;
        write!(
            f,
            "{found:?} is the name of nothing: {why}; write the name of an object"
        )
    }
}

impl std::error::Error for NoSegment {}

/// A resource of the API, as paths name it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Resource {
    /// API group; empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Its plural.
    pub plural: &'static str,
}

/// A path, which may end with a query.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Path {
    text: String,
    asks: bool,
}

impl Resource {
    fn api(self) -> String {
        match self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }

    /// Its group and version, of which the API server tells what it serves.
    pub fn discovery(self) -> Path {
        Path {
            text: self.api(),
            asks: false,
        }
    }

    /// All its objects.
    pub fn everywhere(self) -> Path {
        Path {
            text: format!("{}/{}", self.api(), self.plural),
            asks: false,
        }
    }

    /// Its objects in a namespace.
    ///
    /// # Errors
    /// When there can be no such namespace.
    pub fn within(self, namespace: &str) -> Result<Path, NoSegment> {
        let mut text = self.api() + "/namespaces/";
        push(&mut text, namespace)?;
        let _ = write!(text, "/{}", self.plural);
        Ok(Path { text, asks: false })
    }
}

impl Path {
    /// The object of this name.
    ///
    /// # Errors
    /// When there can be none.
    pub fn object(mut self, name: &str) -> Result<Self, NoSegment> {
        self.text.push('/');
        push(&mut self.text, name)?;
        Ok(self)
    }

    /// A part of an object, such as its status.
    #[must_use]
    pub fn subresource(mut self, name: &'static str) -> Self {
        let _ = write!(self.text, "/{name}");
        self
    }

    /// With a parameter.
    #[must_use]
    pub fn with(mut self, parameter: &'static str, value: &str) -> Self {
        self.text.push(if self.asks { '&' } else { '?' });
        self.asks = true;
        self.text.push_str(parameter);
        self.text.push('=');
        escape(&mut self.text, value);
        self
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Adds a segment. Escaping is not enough: the API server takes a path apart after it has unescaped it,
/// and dots lead elsewhere however they are written. It allows none of these in a name either.
fn push(path: &mut String, segment: &str) -> Result<(), NoSegment> {
    let why = match segment {
        "" => "it is empty",
        "." | ".." => "it leads elsewhere in a path",
        _ if segment.len() > LONGEST => "it has more than 253 bytes",
        _ if segment.contains(['/', '%']) => "it has a / or %",
        _ => {
            escape(path, segment);
            return Ok(());
        }
    };
    let end = segment.floor_char_boundary(SHOWN);
    let found = segment[..end].to_owned();
    Err(NoSegment { found, why })
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
fn escape(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: Resource = Resource {
        group: "",
        version: "v1",
        plural: "pods",
    };

    fn pod(namespace: &str, name: &str) -> Result<Path, NoSegment> {
        PODS.within(namespace)?.object(name)
    }

    #[test]
    fn a_path_names_group_namespace_object_and_part() {
        let jobs = Resource {
            group: "batch",
            version: "v1",
            plural: "jobs",
        };
        let status = jobs.within("ops").unwrap().object("sum.1").unwrap();
        let status = status.subresource("status");
        assert_eq!(
            status.as_str(),
            "/apis/batch/v1/namespaces/ops/jobs/sum.1/status"
        );
        assert_eq!(jobs.discovery().as_str(), "/apis/batch/v1");
        let pods = PODS.everywhere().with("limit", "5").with("continue", "a&b");
        assert_eq!(pods.as_str(), "/api/v1/pods?limit=5&continue=a%26b");
    }

    #[test]
    fn a_name_stays_one_segment_whatever_is_in_it() {
        let escaped = |name| pod("ops", name).unwrap().as_str().to_owned();
        let below = "/api/v1/namespaces/ops/pods/";
        for (name, segment) in [
            ("?watch=true", "%3Fwatch%3Dtrue"),
            ("a#b", "a%23b"),
            ("...", "..."),
            ("a b\r\nHost: c", "a%20b%0D%0AHost%3A%20c"),
            ("ü", "%C3%BC"),
        ] {
            assert_eq!(escaped(name), format!("{below}{segment}"));
        }
    }

    #[test]
    fn what_can_be_no_segment_is_refused_as_name_and_as_namespace() {
        let long = "x".repeat(254);
        for wrong in ["", ".", "..", "../../nodes", "a/log", "%2e%2e", &long] {
            assert!(pod("ops", wrong).is_err(), "{wrong}");
            assert!(pod(wrong, "p").is_err(), "{wrong}");
        }
        let error = pod("ops", "a/log").unwrap_err().to_string();
        assert!(error.starts_with("\"a/log\" is the name of nothing: it has a / or %"));
    }
}
