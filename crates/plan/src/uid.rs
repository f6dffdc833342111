//! Uids of API objects, 16 bytes instead of 36 characters: the caches hold one per row.

use std::fmt;
use std::str::FromStr;

/// A uid as the API server makes them: an RFC 4122 UUID.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Uid(u128);

/// The text is not a UUID in its canonical form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NotAUid(String);

impl fmt::Display for NotAUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "uid {:?} is not a UUID such as 4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00",
            self.0
        )
    }
}

impl std::error::Error for NotAUid {}

const DASHES: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// Sorts before every other.
    pub const MIN: Self = Self(0);
    /// Sorts after every other.
    pub const MAX: Self = Self(u128::MAX);
}

impl FromStr for Uid {
    type Err = NotAUid;

    fn from_str(text: &str) -> Result<Self, NotAUid> {
        let bad = || NotAUid(text.chars().take(64).collect());
        if text.len() != 36 {
            return Err(bad());
        }
        let mut value = 0u128;
        for (at, byte) in text.bytes().enumerate() {
            let digit = match byte {
                b'-' if DASHES.contains(&at) => continue,
                // Upper case would not come back as it was written, and then name another object.
                b'0'..=b'9' if !DASHES.contains(&at) => byte - b'0',
                b'a'..=b'f' if !DASHES.contains(&at) => byte - b'a' + 10,
                _ => return Err(bad()),
            };
            value = value * 16 + u128::from(digit);
        }
        Ok(Self(value))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(36);
        let mut rest = self.0;
        while text.len() < 36 {
            if DASHES.contains(&text.len()) {
                text.push('-');
            }
            let first = (rest >> 124) as u32;
            text.extend(char::from_digit(first, 16));
            rest <<= 4;
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_comes_back_as_it_was_written() {
        for text in [
            "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00",
            "00000000-0000-0000-0000-000000000001",
        ] {
            assert_eq!(text.parse::<Uid>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_was_found() {
        for text in [
            "",
            "abc",
            "4E0C5D6A-0b1c-4d2e-8f3a-5b6c7d8e9f00",
            "4e0c5d6a00b1c-4d2e-8f3a-5b6c7d8e9f00",
            "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f0g",
            "zürichzürichzürichzürichzürichzüri",
        ] {
            assert!(
                text.parse::<Uid>()
                    .unwrap_err()
                    .to_string()
                    .contains("is not a UUID")
            );
        }
    }
}
