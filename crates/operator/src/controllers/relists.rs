//! How often a refused plan may have all caches listed anew: it costs the API server as much as a start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use carillon_plan::ObjectKey;

/// Between two lists for one object, at first; doubled each time.
const FIRST: Duration = Duration::from_mins(1);
/// Between two lists for one object at most.
const LONGEST: Duration = Duration::from_hours(1);
/// Between two lists for any object: one serves all that need it.
const APART: Duration = Duration::from_mins(1);
/// An object for which nothing was listed for so long begins anew.
const FORGOTTEN: Duration = Duration::from_hours(2);
/// Objects that are remembered. While there are more, the others have nothing listed.
const MOST: usize = 1024;

/// When something was listed last, and for whom.
#[derive(Debug, Default)]
pub struct Relists(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    objects: HashMap<Arc<ObjectKey>, Asked>,
}

#[derive(Debug)]
struct Asked {
    times: u32,
    last: Instant,
}

impl Relists {
    /// Whether all is to be listed anew for this object, whose plan was refused.
    pub(super) fn may(&self, key: &Arc<ObjectKey>, now: Instant) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        let since = |earlier| now.saturating_duration_since(earlier);
        if state.last.is_some_and(|last| since(last) < APART) {
            return false;
        }
        let objects = &mut state.objects;
        objects.retain(|_, asked| since(asked.last) < FORGOTTEN);
        let times = match objects.get(key) {
            Some(asked) if since(asked.last) < apart(asked.times) => return false,
            None if objects.len() >= MOST => return false,
            asked => asked.map_or(0, |asked| asked.times),
        };
        let asked = Asked {
            times: times.saturating_add(1),
            last: now,
        };
        objects.insert(key.clone(), asked);
        state.last = Some(now);
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is kept here stays whole: it is changed by single inserts.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of how many objects something is kept.
    pub(super) fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.lock().objects.remove(key);
    }
}

/// How long after the so-many-th list for an object the next one may be.
fn apart(times: u32) -> Duration {
    let doublings = times.saturating_sub(1).min(10);
    (FIRST * (1 << doublings)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use carillon_plan::object_key::BROADCAST_JOB;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn key(n: usize) -> Arc<ObjectKey> {
        let uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}");
        ObjectKey::of(BROADCAST_JOB, "ops", "fix", uid.parse().unwrap())
    }

    #[test]
    fn an_object_has_all_listed_at_once_and_then_less_and_less_often() {
        let (relists, begin) = (Relists::default(), Instant::now());
        let listed = |from: u32, to: u32| {
            let minutes =
                (from..to).filter(|minute| relists.may(&key(0), begin + MINUTE * *minute));
            minutes.collect::<Vec<_>>()
        };
        assert_eq!(listed(0, 60), [0, 1, 3, 7, 15, 31]);
        assert_eq!(listed(60, 300), [63, 123, 183, 243]);
        assert_eq!(listed(500, 502), [500, 501], "it begins anew");
    }

    #[test]
    fn all_objects_together_have_all_listed_once_a_minute() {
        let (relists, begin) = (Relists::default(), Instant::now());
        let seconds = (0..600).filter(|second| {
            relists.may(&key(*second), begin + Duration::from_secs(*second as u64))
        });
        assert_eq!(seconds.count(), 10);
    }

    #[test]
    fn so_many_objects_are_remembered_and_no_more() {
        let (relists, begin) = (Relists::default(), Instant::now());
        for n in 0..3 * MOST {
            relists.may(&key(n), begin + MINUTE * n as u32);
            assert!(relists.lock().objects.len() <= MOST);
        }
        relists.forget(&key(3 * MOST - 1));
    }
}
