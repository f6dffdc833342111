//! How many failed nodes a job puts up with.

use serde_json::Value;

/// A number, or a percentage of the desired nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MaxFailedNodes {
    /// This many.
    Count(u32),
    /// This many percent of the desired nodes, rounded down.
    Percent(u32),
}

impl MaxFailedNodes {
    /// Reads an int-or-string value. The error is what to say to the user.
    pub fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Number(number) => number
                .as_i64()
                .and_then(|n| u32::try_from(n).ok())
                .map(Self::Count)
                .ok_or_else(|| format!("must be a whole number from 0, found {number}")),
            Value::String(text) => text
                .strip_suffix('%')
                .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .filter(|percent| *percent <= 100)
                .map(Self::Percent)
                .ok_or_else(|| {
                    let found: String = text.chars().take(32).collect();
                    format!("must be a number or a percentage from 0% to 100%, found {found:?}")
                }),
            _ => Err("must be a number or a percentage such as 10%".to_owned()),
        }
    }

    /// The number of failed nodes this allows of `total`.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => total * percent as usize / 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MaxFailedNodes::{self, Count, Percent};
    use serde_json::json;

    #[test]
    fn percentages_round_down() {
        for (percent, total, nodes) in [(10, 9, 0), (10, 10, 1), (33, 10, 3), (100, 7, 7)] {
            assert_eq!(Percent(percent).of(total), nodes, "{percent}% of {total}");
        }
    }

    #[test]
    fn numbers_and_percentages_are_read_and_others_refused() {
        assert_eq!(MaxFailedNodes::read(&json!(0)), Ok(Count(0)));
        assert_eq!(MaxFailedNodes::read(&json!("0%")), Ok(Percent(0)));
        for bad in [json!(-1), json!(1.5), json!("3"), json!("101%"), json!({})] {
            let problem = MaxFailedNodes::read(&bad).unwrap_err();
            assert!(problem.starts_with("must be"), "{bad}");
        }
    }
}
