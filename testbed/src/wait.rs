//! Waiting for a condition with a deadline.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Calls `probe` every `every` until it returns `Ok(Some(_))`.
///
/// An `Err` from `probe` ends the wait at once; `Ok(None)` means "not yet". When `limit` has
/// passed the error says what was waited for, and `hint` is asked once for what was found instead.
pub fn until<T>(
    what: &str,
    limit: Duration,
    every: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
    hint: impl FnOnce() -> String,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = probe()? {
            return Ok(found);
        }
        if start.elapsed() >= limit {
            bail!("{what}: not so after {:.0?}. {}", limit, hint());
        }
        sleep(every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_the_condition_holds() {
        let mut calls = 0;
        let got = until(
            "third call",
            Duration::from_secs(5),
            Duration::from_millis(1),
            || {
                calls += 1;
                Ok((calls == 3).then_some(calls))
            },
            String::new,
        );
        assert_eq!(got.ok(), Some(3));
    }

    #[test]
    fn a_wait_that_runs_out_names_what_it_waited_for() {
        let error = until::<()>(
            "node-0001 is Ready",
            Duration::from_millis(2),
            Duration::from_millis(1),
            || Ok(None),
            || "found NotReady".to_owned(),
        )
        .expect_err("never true");
        let text = error.to_string();
        assert!(text.contains("node-0001 is Ready"), "{text}");
        assert!(text.contains("found NotReady"), "{text}");
    }
}
