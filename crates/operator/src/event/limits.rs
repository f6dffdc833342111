//! What was said about which object, pure.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    time::{Duration, Instant},
};

use super::{Event, Regarding};

const SAME_EVENT_EVERY: Duration = Duration::from_mins(5);
const BURST: f64 = 25.0;
const ONE_EVERY: Duration = Duration::from_secs(30);
/// Objects remembered at most.
const OBJECTS: usize = 4096;

/// Whether an event is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Write,
    /// Said less than five minutes ago.
    Same,
    TooMany,
}

/// What was said about which object: by namespace, then by uid.
#[derive(Debug, Default)]
pub(super) struct Limits {
    namespaces: HashMap<String, HashMap<String, Said>>,
    objects: usize,
}

#[derive(Debug)]
struct Said {
    tokens: f64,
    at: Instant,
    recent: Vec<(u64, Instant)>,
}

impl Limits {
    /// Whether `event` is to be written now; taken for written then.
    pub(super) fn admit(&mut self, event: &Event, now: Instant) -> Admission {
        let said = BuildHasherDefault::<DefaultHasher>::default().hash_one((
            &event.reason,
            &event.note,
            event.action,
            &event.about,
        ));
        self.make_room(now);
        let Regarding { namespace, uid, .. } = &event.regarding;
        let objects = self.namespaces.entry(namespace.clone()).or_default();
        let object = objects.entry(uid.clone()).or_insert_with(|| {
            self.objects += 1;
            Said {
                tokens: BURST,
                at: now,
                recent: Vec::new(),
            }
        });
        object
            .recent
            .retain(|(_, at)| now.saturating_duration_since(*at) < SAME_EVENT_EVERY);
        if object.recent.iter().any(|(hash, _)| *hash == said) {
            return Admission::Same;
        }
        let earned =
            now.saturating_duration_since(object.at).as_secs_f64() / ONE_EVERY.as_secs_f64();
        object.tokens = (object.tokens + earned).min(BURST);
        object.at = now;
        if object.tokens < 1.0 {
            return Admission::TooMany;
        }
        object.tokens -= 1.0;
        object.recent.push((said, now));
        Admission::Write
    }

    /// Forgets objects that are quiet, and those of the namespace that has most, rather than growing
    /// without bound.
    fn make_room(&mut self, now: Instant) {
        if self.objects < OBJECTS {
            return;
        }
        for objects in self.namespaces.values_mut() {
            objects.retain(|_, said| now.saturating_duration_since(said.at) < SAME_EVENT_EVERY);
        }
        self.namespaces.retain(|_, objects| !objects.is_empty());
        self.objects = self.namespaces.values().map(HashMap::len).sum();
        if self.objects >= OBJECTS {
            let most = self
                .namespaces
                .iter()
                .max_by_key(|(_, objects)| objects.len());
            let most = most.map(|(namespace, _)| namespace.clone());
            let forgotten = most.and_then(|namespace| self.namespaces.remove(&namespace));
            self.objects -= forgotten.map_or(0, |objects| objects.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::event;
    use super::*;

    #[test]
    fn the_same_event_is_said_once_in_five_minutes() {
        let (mut limits, t) = (Limits::default(), Instant::now());
        assert_eq!(limits.admit(&event("a", "x"), t), Admission::Write);
        assert_eq!(limits.admit(&event("a", "x"), t), Admission::Same);
        assert_eq!(limits.admit(&event("a", "y"), t), Admission::Write);
        assert_eq!(limits.admit(&event("b", "x"), t), Admission::Write);
        let later = t + SAME_EVENT_EVERY;
        assert_eq!(limits.admit(&event("a", "x"), later), Admission::Write);
    }

    #[test]
    fn the_same_words_about_another_pod_are_said() {
        let (mut limits, t) = (Limits::default(), Instant::now());
        let of = |about: &str| Event {
            about: Some(about.to_owned()),
            ..event("a", "Created pod: agent-1")
        };
        for (about, admission) in [
            ("7", Admission::Write),
            ("9", Admission::Write),
            ("7", Admission::Same),
        ] {
            assert_eq!(limits.admit(&of(about), t), admission, "{about}");
        }
    }

    #[test]
    fn one_object_cannot_flood() {
        let (mut limits, t) = (Limits::default(), Instant::now());
        let written = (0..100)
            .filter(|n| limits.admit(&event("a", &n.to_string()), t) == Admission::Write)
            .count();
        assert_eq!(written, 25);
        assert_eq!(limits.admit(&event("b", "x"), t), Admission::Write);
        let later = t + ONE_EVERY;
        assert_eq!(limits.admit(&event("a", "late"), later), Admission::Write);
        assert_eq!(
            limits.admit(&event("a", "later"), later),
            Admission::TooMany
        );
    }

    fn of(namespace: &str, uid: usize) -> Event {
        let mut event = event(&uid.to_string(), "x");
        event.regarding.namespace = namespace.into();
        event
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_forgotten_where_most_is_remembered() {
        let (mut limits, t) = (Limits::default(), Instant::now());
        assert_eq!(limits.admit(&of("quiet", 0), t), Admission::Write);
        for n in 0..3 * OBJECTS {
            limits.admit(&of("noisy", n), t);
            let held: usize = limits.namespaces.values().map(HashMap::len).sum();
            assert!(held <= OBJECTS && held == limits.objects);
        }
        assert_eq!(limits.admit(&of("quiet", 0), t), Admission::Same);
        // Of each namespace one.
        for n in 0..OBJECTS + 10 {
            limits.admit(&of(&n.to_string(), n), t);
            assert!(limits.namespaces.len() <= OBJECTS);
        }
    }
}
