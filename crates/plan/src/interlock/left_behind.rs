//! The same for what an object that is gone has left behind.

use std::collections::HashSet;

use super::trip::{Trip, trip};
use crate::left_behind::{Action, Held, Plan, Snapshot};
use crate::plan::OnError;

/// The rules, as they are named in messages and metrics.
pub mod rules {
    /// Only what the object held is released, and only after the API server has said that the object is gone.
    pub const LEFT_BEHIND: &str = "left_behind";

    /// All of them.
    pub const ALL: [&str; 1] = [LEFT_BEHIND];
}

/// Checks `plan`, which was made from `snapshot`.
///
/// # Errors
/// When it releases anything too early, or anything else. None of it may then be carried out.
pub fn verify(snapshot: &Snapshot<'_>, plan: &Plan) -> Result<(), Trip> {
    let all: HashSet<&Held> = snapshot.held.iter().collect();
    let mut is_gone = !snapshot.asks;
    for step in &plan.steps {
        for action in &step.actions {
            match action {
                Action::ConfirmGone => {}
                Action::Release(held) => release(&all, held, is_gone)?,
            }
        }
        is_gone |= step.actions.contains(&Action::ConfirmGone) && step.on_error == OnError::Stop;
    }
    Ok(())
}

fn release(all: &HashSet<&Held>, held: &Held, is_gone: bool) -> Result<(), Trip> {
    let Held { kind, name, .. } = held;
    let refuse = |expected: &str| {
        let what = format!("{} {name}: released; expected {expected}", kind.1);
        trip(rules::LEFT_BEHIND, what)
    };
    if !is_gone {
        return refuse("the question before whether its object is gone");
    }
    if !all.contains(held) {
        return refuse("that it was held like this");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::left_behind::plan;
    use crate::object_key::POD;
    use crate::plan::Step;
    use crate::uid::Uid;

    fn held() -> [Held; 2] {
        ["a", "b"].map(|name| Held {
            kind: POD,
            name: name.into(),
            uid: Uid::MAX,
            rv: None,
            watched: true,
        })
    }

    #[test]
    fn what_was_held_is_released_after_the_question_whether_its_object_is_gone() {
        let held = held();
        for asks in [true, false] {
            let snapshot = Snapshot { held: &held, asks };
            let plan = plan(&snapshot);
            let actions = plan.steps.iter().flat_map(|step| &step.actions);
            assert_eq!(actions.count(), 2 + usize::from(asks));
            assert_eq!(verify(&snapshot, &plan), Ok(()));
        }
        let nothing = Snapshot {
            held: &[],
            asks: true,
        };
        assert_eq!(plan(&nothing).steps, []);
    }

    #[test]
    fn nothing_is_released_before_the_answer_and_nothing_but_what_was_held() {
        let held = held();
        let snapshot = Snapshot {
            held: &held,
            asks: true,
        };
        let good = plan(&snapshot);
        let changes: [fn(&mut Plan); 6] = [
            |plan| drop(plan.steps.remove(0)),
            |plan| plan.steps.reverse(),
            |plan| plan.steps[0].on_error = OnError::GoOn,
            |plan| {
                let question = plan.steps.remove(0);
                plan.steps[0].actions.splice(0..0, question.actions);
                plan.steps[0].on_error = OnError::Stop;
            },
            |plan| {
                if let Action::Release(held) = &mut plan.steps[1].actions[0] {
                    held.uid = Uid::MIN;
                }
            },
            |plan| {
                let mut other = self::held()[0].clone();
                other.name = "c".into();
                plan.steps.push(Step::wanted(vec![Action::Release(other)]));
            },
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut bad = good.clone();
            change(&mut bad);
            let trip = verify(&snapshot, &bad).expect_err(&n.to_string());
            assert_eq!(trip.rule, rules::LEFT_BEHIND);
        }
    }
}
