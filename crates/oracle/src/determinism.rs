//! S15: the same snapshot gives the same plan.

use jiff::Timestamp;

use crate::history::Key;
use crate::invariant::Invariant::S15;
use crate::verdict::{Checked, Verdict, Violation};

/// A decision that was recorded while it was made, and made again from what it was made from.
#[derive(Clone, Debug)]
pub struct Decision {
    /// When it was made.
    pub at: Timestamp,
    /// The job it is about.
    pub job: Key,
    /// Digest of the plan, as recorded.
    pub recorded: String,
    /// Digest of the plan that was made again.
    pub replayed: String,
}

/// S15. Every decision, made again from the snapshot and the time it was recorded with, gives the
/// same plan: the digests are equal.
pub fn replays_equally(decisions: &[Decision]) -> Verdict {
    let mut checked = Checked::default();
    for decision in decisions {
        let (recorded, replayed) = (&decision.recorded, &decision.replayed);
        checked.require(recorded == replayed, || Violation {
            invariant: S15,
            rev: 0,
            at: decision.at,
            what: format!("the plan was {recorded} and is {replayed} when made again"),
            key: Some(decision.job.clone()),
            before: None,
            after: None,
            by: None,
        })?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_comes_out_different_is_found() {
        let decision = |replayed: &str| Decision {
            at: Timestamp::UNIX_EPOCH,
            job: Key {
                resource: "broadcastjobs.carillon.dev".into(),
                namespace: "ops".into(),
                name: "fix".into(),
            },
            recorded: "a1".to_owned(),
            replayed: replayed.to_owned(),
        };
        let good = replays_equally(&[decision("a1"), decision("a1")]).unwrap();
        assert_eq!(good.evaluations, 2);
        let violation = replays_equally(&[decision("a1"), decision("b2")]).unwrap_err();
        assert!(
            violation.to_string().contains("was a1 and is b2"),
            "{violation}"
        );
    }
}
