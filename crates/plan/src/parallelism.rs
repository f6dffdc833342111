//! A number, or a percentage of a total.

use serde_json::Value;

/// How many pods may run at the same time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Parallelism {
    /// This many.
    Count(u32),
    /// This many percent of the desired nodes, rounded up.
    Percent(u32),
}

impl Parallelism {
    /// Reads an int-or-string value. The error is what to say to the user.
    pub fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Number(number) => number
                .as_i64()
                .and_then(|n| u32::try_from(n).ok())
                .filter(|&n| n > 0)
                .map(Self::Count)
                .ok_or_else(|| format!("must be at least 1, found {number}")),
            Value::String(text) => text
                .strip_suffix('%')
                .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .filter(|percent| (1..=100).contains(percent))
                .map(Self::Percent)
                .ok_or_else(|| {
                    let found: String = text.chars().take(32).collect();
                    format!("must be a number or a percentage from 1% to 100%, found {found:?}")
                }),
            _ => Err("must be a number or a percentage such as 10%".to_owned()),
        }
    }

    /// The number of pods this allows of `total`.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Parallelism::{self, Count, Percent};
    use serde_json::json;

    #[test]
    fn percentages_round_up() {
        for (percent, total, pods) in [
            (40, 5, 2),
            (1, 1, 1),
            (1, 1000, 10),
            (33, 10, 4),
            (50, 0, 0),
        ] {
            assert_eq!(Percent(percent).of(total), pods, "{percent}% of {total}");
        }
    }

    #[test]
    fn numbers_and_percentages_are_read() {
        assert_eq!(
            Parallelism::read(&json!(2_147_483_647)),
            Ok(Count(i32::MAX as u32))
        );
        assert_eq!(Parallelism::read(&json!("10%")), Ok(Percent(10)));
    }

    #[test]
    fn other_values_are_refused_with_what_was_found() {
        for bad in [
            json!(0),
            json!(-1),
            json!(1.5),
            json!("10"),
            json!("0%"),
            json!("50%%"),
            json!("-5%"),
            json!(null),
        ] {
            assert!(
                Parallelism::read(&bad).unwrap_err().starts_with("must be"),
                "{bad}"
            );
        }
    }
}
