//! How long attempts take, as far as those that have ended and those that still run can tell.

/// Numbers that look random and are the same each time (splitmix64).
#[derive(Debug)]
pub(super) struct Draws(pub(super) u64);

impl Draws {
    /// Over 0, below 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((bits >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Of an exponential distribution with mean 1.
    fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Of a normal distribution with mean 0 and deviation 1.
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Seconds that an attempt has taken, or has run up to now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) seconds: f64,
    pub(super) ended: bool,
}

/// A distribution of durations: Kaplan and Meier's estimate. An attempt that still runs says that it takes longer than
/// it has run, so that the quick ones, which end first, do not count for too much.
#[derive(Debug)]
pub(super) struct Durations {
    /// Durations, each with the share of attempts that take longer; in their order.
    steps: Vec<(f64, f64)>,
    /// The longest that was seen.
    longest: f64,
    excess: Excess,
}

/// How much longer than all that was seen an attempt takes that takes longer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Excess {
    /// So many seconds, on average: it may end at any time, however long it has run.
    Seconds(f64),
    /// The longer it has run, the longer it will: the mean of the logarithm of how many times as long.
    Times(f64),
}

/// Beyond this its mean and its variance are hardly defined.
const MOST_TIMES: f64 = 0.45;

impl Excess {
    /// What attempts say that have run longer than the one in the middle. Nobody knows which of the two holds.
    pub(super) fn both(seen: &[Seen]) -> [Self; 2] {
        let longest = seen.last().map_or(0.0, |one| one.seconds);
        let middle = seen.get(seen.len() / 2).map_or(0.0, |one| one.seconds);
        let beyond = seen.iter().filter(|one| one.seconds > middle);
        let ended = beyond.clone().filter(|one| one.ended).count() as f64;
        let mean = |of: fn(f64, f64) -> f64, most: f64| {
            let sum: f64 = beyond.clone().map(|one| of(one.seconds, middle)).sum();
            // Where none has ended it is no number, and the most holds.
            (sum / ended).min(most).max(0.0)
        };
        [
            Self::Seconds(mean(|seconds, middle| seconds - middle, longest)),
            Self::Times(mean(
                |seconds, middle| (seconds / middle).max(1.0).ln(),
                MOST_TIMES,
            )),
        ]
    }

    fn beyond(self, seconds: f64, draws: &mut Draws) -> f64 {
        match self {
            Self::Seconds(excess) => seconds + excess * draws.exponential(),
            Self::Times(times) => seconds * (times * draws.exponential()).exp(),
        }
    }

    /// Mean, and mean of the square.
    fn moments(self, seconds: f64) -> (f64, f64) {
        match self {
            Self::Seconds(excess) => {
                let squares = seconds * seconds + 2.0 * seconds * excess + 2.0 * excess * excess;
                (seconds + excess, squares)
            }
            Self::Times(times) => (
                seconds / (1.0 - times),
                seconds * seconds / (1.0 - 2.0 * times),
            ),
        }
    }
}

impl Durations {
    /// One that what was seen, in its order, may come from: the weights of a Bayesian bootstrap are drawn. So few
    /// attempts make many different ones.
    pub(super) fn drawn(seen: &[Seen], excess: Excess, draws: &mut Draws) -> Self {
        let weights: Vec<f64> = seen.iter().map(|_| draws.exponential()).collect();
        let mut at_risk: f64 = weights.iter().sum();
        let (mut longer, mut steps) = (1.0, Vec::new());
        for (at, (one, weight)) in seen.iter().zip(weights).enumerate() {
            if one.ended {
                let last = at + 1 == seen.len();
                longer *= if last { 0.0 } else { 1.0 - weight / at_risk };
                steps.push((one.seconds, longer));
            }
            at_risk -= weight;
        }
        let longest = seen.last().map_or(0.0, |one| one.seconds);
        Self {
            steps,
            longest,
            excess,
        }
    }

    /// How long an attempt takes that has run `age` seconds.
    pub(super) fn after(&self, age: f64, draws: &mut Draws) -> f64 {
        let before = self.steps.partition_point(|(seconds, _)| *seconds <= age);
        let share = before.checked_sub(1).map_or(1.0, |at| self.steps[at].1);
        let longer = share * draws.unit();
        let at = self.steps.partition_point(|(_, left)| *left > longer);
        match self.steps.get(at.max(before)) {
            Some((seconds, _)) => *seconds,
            None => self.excess.beyond(self.longest.max(age), draws),
        }
    }

    /// Mean and variance.
    pub(super) fn moments(&self) -> (f64, f64) {
        let (mut left, mut mean, mut squares) = (1.0, 0.0, 0.0);
        for (seconds, longer) in &self.steps {
            mean += (left - longer) * seconds;
            squares += (left - longer) * seconds * seconds;
            left = *longer;
        }
        let beyond = self.excess.moments(self.longest);
        mean += left * beyond.0;
        squares += left * beyond.1;
        (mean, (squares - mean * mean).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ended: &[f64], running: &[f64]) -> Vec<Seen> {
        let ended = ended.iter().map(|seconds| Seen {
            seconds: *seconds,
            ended: true,
        });
        let running = running.iter().map(|seconds| Seen {
            seconds: *seconds,
            ended: false,
        });
        let mut all: Vec<Seen> = ended.chain(running).collect();
        all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(b.ended.cmp(&a.ended)));
        all
    }

    /// The mean of the means of many draws.
    fn mean(seen: &[Seen]) -> f64 {
        let mut draws = Draws(1);
        let means = (0..2000).map(|_| {
            Durations::drawn(seen, Excess::both(seen)[0], &mut draws)
                .moments()
                .0
        });
        means.sum::<f64>() / 2000.0
    }

    #[test]
    fn what_still_runs_counts_for_as_long_as_it_has_run_at_least() {
        let near = |found: f64, want: f64| assert!((found - want).abs() < 0.5, "{found}");
        near(mean(&seen(&[10.0, 20.0, 30.0], &[])), 20.0);
        // Of three that ran 10 seconds one has ended: the others take longer, 20 seconds on average.
        near(mean(&seen(&[10.0], &[10.0, 10.0])), 50.0 / 3.0);
        // It runs as long as the longest two, one of which it will be.
        near(
            mean(&seen(&[10.0, 30.0, 40.0], &[20.0])),
            10.0 / 4.0 + 35.0 * 3.0 / 4.0,
        );
    }

    #[test]
    fn an_attempt_takes_longer_than_it_has_run() {
        let mut draws = Draws(7);
        let all = Durations::drawn(
            &seen(&[10.0, 20.0, 30.0], &[]),
            Excess::Seconds(5.0),
            &mut draws,
        );
        for (age, least, most) in [(0.0, 10.0, 30.0), (10.0, 20.0, 30.0), (25.0, 30.0, 30.0)] {
            for _ in 0..100 {
                let takes = all.after(age, &mut draws);
                assert!((least..=most).contains(&takes), "{takes} after {age}");
            }
        }
        assert!(all.after(100.0, &mut draws) > 100.0);
    }

    #[test]
    fn draws_are_spread_as_they_should() {
        let mut draws = Draws(3);
        let normal: Vec<f64> = (0..10_000).map(|_| draws.normal()).collect();
        let mean = normal.iter().sum::<f64>() / 10_000.0;
        let squares = normal.iter().map(|one| one * one).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.05 && (squares - 1.0).abs() < 0.05);
    }
}
