//! Writes for an object that are refused again and again, or never get their turn: what its status has to say of
//! them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carillon_plan::ObjectKey;
use carillon_plan::condition::Refusal;
use carillon_plan::pod::printable;

use crate::apply::{Applied, WRITE_STATUS};
use crate::writes::SendError;

/// Refusals in a row that are worth a condition. One or two come of two writers at a time.
const TIMES: u32 = 3;
/// The same of writes whose object has changed each time: what brings the change takes a while, and the delays
/// between so many plans come to 25 seconds.
const TIMES_OUTRUN: u32 = 9;
/// What is said of those.
const OUTRUN: &str = "the API server says each time that the object has changed since it was read";
/// What is said of plans that grow too old, as an action and in words.
const TOO_OLD: (&str, &str) = (
    "create",
    "nothing was created within 10 seconds: requests of this namespace take long, or wait long for their turn; often an \
     admission webhook is slow",
);

/// What is refused, by object. `None`: it is over, and the status may still tell of it.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<Arc<ObjectKey>, Option<Repeated>>>);

#[derive(Debug)]
struct Repeated {
    action: Box<str>,
    times: u32,
    /// How often something else has failed since.
    others: u32,
    /// How many plans in a row have only told of it.
    only_told: u32,
    /// So many are worth a condition.
    enough: u32,
    /// Another leader has told it, and this one has not tried it yet.
    inherited: bool,
    /// Of the first time: others may differ in a number or a time, which is no news.
    message: String,
}

impl Repeated {
    fn new(action: &str, enough: u32, message: String) -> Self {
        Self {
            action: action.into(),
            times: 0,
            others: 0,
            only_told: 0,
            enough,
            inherited: false,
            message,
        }
    }

    /// What a status tells that another leader wrote.
    fn told(message: &str) -> Self {
        let (action, words) = message.split_once(": ").unwrap_or(("", message));
        let enough = if words == OUTRUN { TIMES_OUTRUN } else { TIMES };
        Self {
            times: enough,
            inherited: true,
            ..Self::new(action, enough, message.to_owned())
        }
    }

    fn is_told(&self) -> bool {
        self.times >= self.enough
    }

    /// Counts a plan in which it did not fail, and says whether it is over: it goes through, or is no longer to be done.
    /// A plan that only tells of it says neither. Several in a row do: another leader takes back each time what they tell.
    fn ends_with<R>(&mut self, applied: &Applied<R>) -> bool {
        let only_tells = applied.failed.is_none() && applied.tried == 0 && applied.writes > 0;
        self.only_told = if only_tells { self.only_told + 1 } else { 0 };
        match &applied.failed {
            Some(_) if *self.action == *TOO_OLD.0 => !applied.expired,
            Some(_) => applied.done.contains(&*self.action),
            // Others come first in a plan, and the next one may try it.
            None if self.inherited && applied.tried > 0 => {
                self.others += 1;
                applied.done.contains(&*self.action) || self.others >= TIMES
            }
            None => !only_tells || self.only_told >= TIMES,
        }
    }
}

impl Refusals {
    /// Learns from a plan that was carried out. `answered`: actions of which the planner is told in a
    /// better way. True when what was told is over.
    pub(crate) fn learn<R>(
        &self,
        key: &Arc<ObjectKey>,
        applied: &Applied<R>,
        answered: &[&str],
    ) -> bool {
        let mut known = self.lock();
        let refused = applied.failed.as_ref();
        let refused = refused.filter(|(action, error)| {
            *action != WRITE_STATUS
                && !answered.contains(action)
                && !matches!(error, SendError::NotSent(_))
        });
        let refused = refused.map(|(action, error)| (*action, error.to_string(), TIMES));
        let too_old = || {
            let (action, words) = TOO_OLD;
            applied
                .expired_in_vain()
                .then(|| (action, words.into(), TIMES))
        };
        let outrun = || {
            let action = applied.outrun.filter(|_| applied.told == applied.writes)?;
            Some((action, OUTRUN.into(), TIMES_OUTRUN))
        };
        let told = refused.or_else(too_old).or_else(outrun);
        let Some((action, words, enough)) = told else {
            let Some(Some(repeated)) = known.get_mut(key) else {
                return false;
            };
            let (told, over) = (repeated.is_told(), repeated.ends_with(applied));
            if over && told {
                known.insert(key.clone(), None);
            } else if over {
                known.remove(key);
            }
            return over && told;
        };
        let new = || {
            let message = format!("{action}: {}", printable(&words));
            Repeated::new(action, enough, message)
        };
        let entry = known
            .entry(key.clone())
            .or_default()
            .get_or_insert_with(new);
        entry.only_told = 0;
        if std::mem::take(&mut entry.inherited) && *entry.action != *action {
            // Who told it may have had other words for it.
            *entry = Repeated {
                times: enough,
                ..new()
            };
        }
        if (&*entry.action, entry.enough) == (action, enough) {
            entry.others = 0;
        } else if entry.is_told() && entry.others < TIMES {
            // Something else may fail once in between.
            entry.others += 1;
            return false;
        } else {
            *entry = new();
        }
        entry.times = entry.times.saturating_add(1);
        false
    }

    /// What was refused often enough to be told. What a status `tells` that another leader wrote holds until this one
    /// has tried it, or has nothing to try.
    pub(crate) fn of(&self, key: &Arc<ObjectKey>, tells: Option<&str>) -> Option<Refusal> {
        let mut known = self.lock();
        match (known.get(key), tells) {
            (None, Some(message)) => {
                known.insert(key.clone(), Some(Repeated::told(message)));
            }
            (Some(None), None) => {
                known.remove(key);
            }
            _ => {}
        }
        let repeated = known.get(key)?.as_ref()?;
        let is_told = repeated.is_told();
        is_told.then(|| Refusal(repeated.message.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<ObjectKey>, Option<Repeated>>> {
        // What is kept here stays whole: it is changed by single inserts.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of how many objects something is kept.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::Uid;
    use carillon_plan::object_key::BROADCAST_JOB;

    use super::*;

    fn applied(failed: Option<(&'static str, u16)>) -> Applied<()> {
        let failed = failed.map(|(action, code)| {
            let mut status = kube::core::Status::failure("no", "Denied");
            status.code = code;
            (action, SendError::Refused(Box::new(status)))
        });
        Applied {
            failed,
            ..Applied::default()
        }
    }

    #[test]
    fn who_alone_tells_of_a_refusal_that_another_leader_denies_gives_in() {
        let refusals = Refusals::default();
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        for _ in 0..TIMES {
            refusals.learn(&key, &applied(Some(("write_slice", 409))), &[]);
        }
        assert!(refusals.of(&key, None).is_some());
        // The other one has taken it back each time, and there is nothing else to do.
        let tells = Applied::<()> {
            writes: 1,
            told: 1,
            ..Applied::default()
        };
        let over: Vec<_> = (0..TIMES)
            .map(|_| refusals.learn(&key, &tells, &[]))
            .collect();
        assert_eq!(over, [false, false, true]);
        assert!(refusals.of(&key, None).is_none());
        // But as long as it is refused now and then, it is told.
        for _ in 0..3 * TIMES {
            refusals.learn(&key, &applied(Some(("write_slice", 409))), &[]);
            assert!(!refusals.learn(&key, &tells, &[]));
        }
        assert!(refusals.of(&key, None).is_some());
    }

    #[test]
    fn what_another_leader_told_stays_told_until_this_one_has_tried_it() {
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        let told = Some("delete_pod: no");
        let nothing = || applied(None);
        let went_through = |action| Applied::<()> {
            writes: 1,
            tried: 1,
            done: [action].into(),
            ..Applied::default()
        };
        let denied = || applied(Some(("delete_pod", 403)));
        let tells = || Applied::<()> {
            writes: 1,
            told: 1,
            ..Applied::default()
        };
        for (what, applied, stays) in [
            ("it is refused again", denied(), true),
            ("the status tells of something else", tells(), true),
            ("others come first", went_through("adopt_pod"), true),
            ("it goes through", went_through("delete_pod"), false),
            ("there is nothing to do", nothing(), false),
        ] {
            let refusals = Refusals::default();
            let refusal = refusals.of(&key, told);
            assert_eq!(refusal.map(|refusal| refusal.0).as_deref(), told, "{what}");
            assert_eq!(refusals.learn(&key, &applied, &[]), !stays, "{what}");
            assert_eq!(refusals.of(&key, told).is_some(), stays, "{what}");
            // Once the status has followed, another leader may tell it anew.
            if !stays {
                assert!(refusals.of(&key, None).is_none(), "{what}");
                assert_eq!(refusals.len(), 0, "{what}");
                assert!(refusals.of(&key, told).is_some(), "{what}");
            }
        }
    }

    #[test]
    fn what_another_leader_told_in_other_words_stays_told_when_it_is_refused_again() {
        let refusals = Refusals::default();
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        let old = Some("…the last words of a long message");
        assert!(refusals.of(&key, old).is_some());
        for _ in 0..2 * TIMES {
            refusals.learn(&key, &applied(Some(("delete_pod", 403))), &[]);
            let told = refusals.of(&key, old).unwrap().0;
            assert!(told.starts_with("delete_pod: "), "{told}");
        }
    }

    #[test]
    fn the_action_is_told_however_long_the_words_are() {
        let refusals = Refusals::default();
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        for _ in 0..TIMES {
            let mut status = kube::core::Status::failure(&"no ".repeat(1000), "Denied");
            status.code = 403;
            let refused = SendError::Refused(Box::new(status));
            let applied = Applied {
                failed: Some(("delete_pod", refused)),
                ..applied(None)
            };
            refusals.learn(&key, &applied, &[]);
        }
        let told = refusals.of(&key, None).unwrap().0;
        assert!(
            told.starts_with("delete_pod: ") && told.len() < 1000,
            "{told}"
        );
    }

    #[test]
    fn plans_that_grow_too_old_three_times_in_a_row_are_told_until_something_is_created() {
        let refusals = Refusals::default();
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        let told = |expired, created| {
            let applied = Applied::<()> {
                created,
                expired,
                ..Applied::default()
            };
            refusals.learn(&key, &applied, &["create_pod"]);
            refusals.of(&key, None).map(|refusal| refusal.0)
        };
        assert_eq!([told(true, 0), told(true, 0)], [None, None]);
        let message = told(true, 0).unwrap();
        assert!(message.contains("within 10 seconds"), "{message}");
        assert_eq!(told(true, 5), None, "it goes on, slowly");
        assert_eq!([told(true, 0), told(true, 0)], [None, None]);
        assert_eq!(told(false, 0), None);
        for _ in 0..3 {
            told(true, 0);
        }
        let refused = applied(Some(("create_pod", 403)));
        assert!(
            refusals.learn(&key, &refused, &["create_pod"]),
            "that is told instead"
        );
    }

    #[test]
    fn what_has_changed_each_time_is_told_after_a_while() {
        let refusals = Refusals::default();
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        let told = |writes: usize| {
            let applied = Applied::<()> {
                outrun: Some("release_pod"),
                in_vain: 1,
                writes: writes + 1,
                told: 1,
                tried: 1,
                ..Applied::default()
            };
            refusals.learn(&key, &applied, &[]);
            refusals.of(&key, None).map(|refusal| refusal.0)
        };
        for times in 1..TIMES_OUTRUN {
            assert_eq!(told(0), None, "{times}");
        }
        let message = told(0).unwrap();
        assert!(message.starts_with("release_pod: "), "{message}");
        assert_eq!(told(1), None, "something goes on");
    }

    #[test]
    fn what_is_told_stays_told_until_something_else_than_the_telling_goes_through() {
        let refusals = Refusals::default();
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        for _ in 0..TIMES {
            refusals.learn(&key, &applied(Some(("delete_pod", 403))), &[]);
        }
        let went_through = |writes, tried| Applied::<()> {
            writes,
            tried,
            ..Applied::default()
        };
        assert!(!refusals.learn(&key, &went_through(1, 0), &[]));
        assert!(refusals.of(&key, None).is_some());
        // Nor does a plan that came to nothing, or one in which something else failed.
        for action in ["write_status", "confirm_job"] {
            assert!(!refusals.learn(&key, &applied(Some((action, 409))), &[]));
            assert!(refusals.of(&key, None).is_some(), "{action}");
        }
        let over = refusals.learn(&key, &went_through(2, 1), &[]);
        assert!(over && refusals.of(&key, None).is_none());
        assert!(!refusals.learn(&key, &went_through(2, 1), &[]));
    }

    #[test]
    fn what_is_refused_three_times_in_a_row_is_told_until_it_goes_through() {
        let refusals = Refusals::default();
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        let told = |failed| {
            refusals.learn(&key, &applied(failed), &["create_pod"]);
            refusals.of(&key, None).map(|refusal| refusal.0)
        };
        let deletes = Some(("delete_pod", 403));
        assert_eq!([told(deletes), told(deletes)], [None, None]);
        assert!(told(deletes).unwrap().starts_with("delete_pod: "));
        assert!(told(deletes).is_some());
        assert_eq!(told(None), None);
        assert_eq!([told(deletes), told(deletes)], [None, None]);
        let releases = Some(("release_pod", 403));
        assert_eq!(told(releases), None, "something else");
        assert_eq!(
            [told(releases), told(None)].map(|told| told.is_some()),
            [false; 2]
        );
        for other in ["create_pod", "write_status"] {
            for _ in 0..5 {
                assert_eq!(told(Some((other, 403))), None, "{other}");
            }
        }
    }
}
