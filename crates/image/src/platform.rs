//! What an image runs on.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde_json::{Value, json};

/// A platform of images, written `linux/amd64`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Platform {
    /// `linux/amd64`
    Amd64,
    /// `linux/arm64`
    Arm64,
}

impl Platform {
    /// All.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// The architecture, in the words of OCI, which are those of Go.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As an index has it.
    pub fn json(self) -> Value {
        json!({"os": "linux", "architecture": self.architecture()})
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture())
    }
}

impl FromStr for Platform {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL
            .into_iter()
            .find(|known| known.to_string() == text);
        match known {
            Some(known) => Ok(known),
            None => bail!("no image is built for {text:?}: write linux/amd64 or linux/arm64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_read_as_it_is_written_and_another_is_refused_with_those_there_are() {
        for platform in Platform::ALL {
            assert_eq!(
                platform.to_string().parse::<Platform>().expect("known"),
                platform
            );
        }
        let error = "linux/386".parse::<Platform>().expect_err("unknown");
        assert!(
            error.to_string().contains("linux/amd64 or linux/arm64"),
            "{error}"
        );
    }
}
