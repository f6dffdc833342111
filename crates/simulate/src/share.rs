//! A share of something, such as `2%`.

use std::fmt;
use std::str::FromStr;

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share(f64);

impl Share {
    /// Nothing of it.
    pub const NONE: Self = Self(0.0);

    /// Whether one of many is in it, who drew `lot` (from 0 to 1).
    pub fn has(self, lot: f64) -> bool {
        lot < self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').and_then(|n| n.trim().parse().ok());
        percent
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(|percent: f64| Self(percent / 100.0))
            .ok_or_else(|| format!("{text:?} is no share: write 2%, from 0% to 100%"))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not 7.000000000000001%.
        let percent = (self.0 * 1e8).round() / 1e6;
        write!(f, "{percent}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_and_nothing_else() {
        for (text, shown) in [
            ("2%", "2%"),
            ("0%", "0%"),
            ("100%", "100%"),
            ("0.5 %", "0.5%"),
            ("7%", "7%"),
        ] {
            let share: Share = text.parse().unwrap();
            assert_eq!(share.to_string(), shown);
        }
        for text in ["2", "", "%", "-1%", "101%", "NaN%", "inf%", "two%"] {
            let error = text.parse::<Share>().unwrap_err();
            assert!(error.contains("write 2%"), "{text}: {error}");
        }
    }

    #[test]
    fn whoever_draws_less_is_in_it() {
        let half: Share = "50%".parse().unwrap();
        assert!(half.has(0.0) && half.has(0.49) && !half.has(0.5));
        assert!(!Share::NONE.has(0.0));
    }
}
