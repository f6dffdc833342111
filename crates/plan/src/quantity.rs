//! Kubernetes quantities (`100m`, `1.5Gi`, `1e3`) as whole thousandths, rounded up.

/// Thousandths of a unit: `1` of cpu is 1000, `1Ki` of memory is 1,024,000.
pub type Milli = i128;

/// Reads a quantity. `None` when the text is not one; the API server refuses such a template.
///
/// Source of the grammar: apimachinery `resource.Quantity`.
pub fn parse(text: &str) -> Option<Milli> {
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let (numerator, denominator) = decimal(number)?;
    let (multiplier, divisor) = scale(suffix)?;
    let top = numerator.checked_mul(1000)?.checked_mul(multiplier)?;
    let bottom = denominator.checked_mul(divisor)?;
    // Upstream rounds away from zero: a fraction of a thousandth still takes room.
    Some(top / bottom + (top % bottom).signum())
}

/// `12.5` as (125, 10).
fn decimal(number: &str) -> Option<(i128, i128)> {
    let (sign, digits) = match number.as_bytes().first()? {
        b'-' => (-1, &number[1..]),
        b'+' => (1, &number[1..]),
        _ => (1, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // More digits than this are below a thousandth of anything that can be allocated.
    let fraction = &fraction[..fraction.len().min(12)];
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let joined = format!("0{whole}{fraction}");
    let value = joined.parse::<u64>().ok()?;
    Some((sign * i128::from(value), 10i128.pow(fraction.len() as u32)))
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1024i128.pow(power), 1));
    let decimal = |power: u32| Some((10i128.pow(power), 1));
    match suffix {
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "" => Some((1, 1)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            match exponent {
                0..=18 => decimal(exponent.unsigned_abs()),
                -18..0 => Some((1, 10i128.pow(exponent.unsigned_abs()))),
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn quantities_read_as_upstream_reads_them() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1000),
            ("100m", 100),
            ("0.1", 100),
            (".5", 500),
            ("1.5Gi", 1_610_612_736_000),
            ("1Ki", 1_024_000),
            ("64Mi", 67_108_864_000),
            ("1k", 1_000_000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("12E-1", 1200),
            ("1E", 1_000_000_000_000_000_000_000),
            ("-1", -1000),
            ("+2", 2000),
            ("1e18", 1_000_000_000_000_000_000_000),
            ("2000E-3", 2000),
        ] {
            assert_eq!(parse(text), Some(milli), "{text}");
        }
    }

    #[test]
    fn a_suffix_stands_for_a_power_of_a_thousand_or_of_1024() {
        for (power, [decimal, binary]) in (1..).zip([
            ["k", "Ki"],
            ["M", "Mi"],
            ["G", "Gi"],
            ["T", "Ti"],
            ["P", "Pi"],
            ["E", "Ei"],
        ]) {
            let of = |base: i128| Some(3 * base.pow(power) * 1000);
            assert_eq!(parse(&format!("3{decimal}")), of(1000), "{decimal}");
            assert_eq!(parse(&format!("3{binary}")), of(1024), "{binary}");
        }
    }

    #[test]
    fn a_fraction_of_a_thousandth_is_rounded_away_from_zero() {
        for (text, milli) in [
            ("1n", 1),
            ("100u", 1),
            ("2000u", 2),
            ("2001u", 3),
            ("0n", 0),
            ("-1n", -1),
            ("-2000u", -2),
            ("-2001u", -3),
            ("1e-18", 1),
            ("0.000000000001", 1),
        ] {
            assert_eq!(parse(text), Some(milli), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_quantity() {
        for text in [
            "",
            "m",
            "1 Gi",
            "1Gib",
            "--1",
            "1e19",
            "1e-19",
            ".",
            "+",
            "1.2.3",
            "abc",
            "9999999999999999999999",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
