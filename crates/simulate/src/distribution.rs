//! How long something takes, which differs from case to case.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

use fastrand::Rng;
use jiff::SignedDuration;

/// Nothing takes longer.
const MOST: SignedDuration = SignedDuration::from_hours(24 * 30);

/// How long something takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Fixed(SignedDuration),
    /// Any time between the two.
    Uniform(SignedDuration, SignedDuration),
    /// Half of all take less than the median. About two thirds are within a factor of e to the power of sigma.
    LogNormal(SignedDuration, f64),
}

impl Distribution {
    /// One duration.
    pub fn sample(&self, random: &mut Rng) -> SignedDuration {
        match *self {
            Self::Fixed(time) => time,
            Self::Uniform(least, most) => {
                let span = most.as_secs_f64() - least.as_secs_f64();
                seconds(least.as_secs_f64() + span * random.f64())
            }
            Self::LogNormal(median, sigma) => {
                let factor = (sigma * standard_normal(random)).exp();
                seconds(median.as_secs_f64() * factor)
            }
        }
    }
}

/// By Box and Muller.
fn standard_normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (TAU * random.f64()).cos()
}

fn seconds(seconds: f64) -> SignedDuration {
    let time = SignedDuration::try_from_secs_f64(seconds).unwrap_or(MOST);
    time.clamp(SignedDuration::ZERO, MOST)
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no duration: write 30s, uniform:10s,1m or lognormal:30s,0.5");
        let time = |text: &str| -> Option<SignedDuration> {
            let time = text.trim().parse().ok()?;
            (SignedDuration::ZERO..=MOST)
                .contains(&time)
                .then_some(time)
        };
        let read = || match text.split_once(':') {
            None => time(text).map(Self::Fixed),
            Some((name, of)) => {
                let (first, second) = of.split_once(',')?;
                let first = time(first)?;
                match name {
                    "uniform" => {
                        let most = time(second).filter(|most| *most >= first)?;
                        Some(Self::Uniform(first, most))
                    }
                    "lognormal" => {
                        let sigma = second.trim().parse().ok();
                        let sigma = sigma.filter(|sigma| (0.0..=10.0).contains(sigma))?;
                        Some(Self::LogNormal(first, sigma))
                    }
                    _ => None,
                }
            }
        };
        read().ok_or_else(wrong)
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(time) => write!(f, "{time:#}"),
            Self::Uniform(least, most) => write!(f, "uniform:{least:#},{most:#}"),
            Self::LogNormal(median, sigma) => write!(f, "lognormal:{median:#},{sigma}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_shown_as_it_was_written() {
        for text in ["30s", "1m", "0s", "uniform:10s,1m", "lognormal:30s,0.5"] {
            let read: Distribution = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        for text in [
            "",
            "30",
            "-1s",
            "soon",
            "uniform:1m,10s",
            "uniform:1m",
            "lognormal:30s,-1",
            "lognormal:30s,NaN",
            "normal:1s,1",
            "99999h",
        ] {
            let error = text.parse::<Distribution>().unwrap_err();
            assert!(error.contains("lognormal:30s,0.5"), "{text}: {error}");
        }
    }

    #[test]
    fn half_of_a_lognormal_distribution_is_below_its_median_and_two_thirds_near_it() {
        let of: Distribution = "lognormal:30s,0.5".parse().unwrap();
        let mut random = Rng::with_seed(1);
        let times: Vec<f64> = (0..10_000)
            .map(|_| of.sample(&mut random).as_secs_f64())
            .collect();
        let share = |least: f64, most: f64| {
            let within = times.iter().filter(|time| (least..most).contains(*time));
            within.count() as f64 / times.len() as f64
        };
        assert!((share(0.0, 30.0) - 0.5).abs() < 0.02);
        let factor = 0.5_f64.exp();
        assert!((share(30.0 / factor, 30.0 * factor) - 0.683).abs() < 0.02);
    }

    #[test]
    fn a_uniform_distribution_stays_within_its_bounds() {
        let of: Distribution = "uniform:10s,1m".parse().unwrap();
        let mut random = Rng::with_seed(1);
        for _ in 0..1000 {
            let time = of.sample(&mut random).as_secs_f64();
            assert!((10.0..=60.0).contains(&time), "{time}");
        }
    }
}
