//! Quantiles of what was measured.

/// The smallest value that this share of all is not above. Of nothing: 0.
pub(super) fn quantile(values: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut all: Vec<f64> = values.into_iter().collect();
    all.sort_by(f64::total_cmp);
    let rank = (share * all.len() as f64).ceil() as usize;
    all.get(rank.max(1) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p99_of_a_hundred_leaves_one_out() {
        let hundred = || (1..=100).rev().map(f64::from);
        for (share, expected) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!((quantile(hundred(), share) - expected).abs() < 1e-9);
        }
        assert!(quantile([], 0.99).abs() < 1e-9);
    }
}
