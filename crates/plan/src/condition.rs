//! metav1 conditions: set one, keep its time while its status stays.

use carillon_api::condition::{reasons, types};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Whether the condition of `type_` is True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// The condition of `type_`.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition Stalled is True, and says more than that the job is paused by failures: that one is told
/// as paused.
pub fn is_stalled(conditions: &[Condition]) -> bool {
    find(conditions, types::STALLED).is_some_and(|stalled| {
        stalled.status == "True" && stalled.reason != reasons::PAUSED_BY_FAILURE
    })
}

/// The message of a request that is ignored, if the conditions have just come to say so.
pub fn newly_ignored<'a>(old: &[Condition], new: &'a [Condition]) -> Option<&'a str> {
    fn told(conditions: &[Condition]) -> Option<&str> {
        let ignored = find(conditions, types::REQUEST_IGNORED)?;
        (ignored.status == "True").then_some(&*ignored.message)
    }
    told(new).filter(|message| told(old) != Some(*message))
}

/// `Stalled: REASON`, as kubectl's column STATUS shows it; `None` unless the condition Stalled is True.
pub fn stalled(conditions: &[Condition]) -> Option<String> {
    let stalled = find(conditions, types::STALLED).filter(|stalled| stalled.status == "True")?;
    Some(format!("{}: {}", types::STALLED, stalled.reason))
}

/// The message of a [`Refusal`] that the conditions tell.
pub fn told_refusal(conditions: &[Condition]) -> Option<&str> {
    let stalled = find(conditions, types::STALLED)?;
    let tells = stalled.status == "True" && stalled.reason == reasons::WRITE_REFUSED;
    tells.then_some(&*stalled.message)
}

/// Sets a condition. Its transition time moves only when its status does.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: bool,
    reason: &str,
    message: &str,
    generation: i64,
    now: Timestamp,
) {
    let status = if status { "True" } else { "False" };
    let since = find(conditions, type_)
        .filter(|old| old.status == status)
        .map_or_else(
            || whole_seconds(now),
            |old| old.last_transition_time.clone(),
        );
    let new = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: Some(generation),
        last_transition_time: since,
    };
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_)
    {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// Writes for an object that are refused again and again: which, and in what words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal(pub String);

impl Refusal {
    /// Whether the conditions say all of it.
    pub fn is_told(&self, conditions: &[Condition]) -> bool {
        told_refusal(conditions) == Some(&*self.0)
    }

    /// Says it in the conditions. False when they say so already.
    pub fn tell(&self, conditions: &mut Vec<Condition>, generation: i64, now: Timestamp) -> bool {
        let said = self.is_told(conditions);
        if !said {
            let (reason, message) = self.stalled();
            set(
                conditions,
                types::STALLED,
                true,
                reason,
                message,
                generation,
                now,
            );
        }
        !said
    }

    /// Reason and message of the condition Stalled.
    pub fn stalled(&self) -> (&'static str, &str) {
        (reasons::WRITE_REFUSED, &self.0)
    }
}

/// The API stores whole seconds; a status compared with what was stored must not carry more.
pub fn whole_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_anew_unless_all_of_it_is_told_already() {
        let refusal = Refusal("quota exceeded".to_owned());
        let (reason, message) = refusal.stalled();
        for (status, reason, message, tells) in [
            (true, reason, message, false),
            (false, reason, message, true),
            (true, "InvalidTemplate", message, true),
            (true, reason, "another quota", true),
            (false, "InvalidTemplate", "another quota", true),
        ] {
            let now = Timestamp::UNIX_EPOCH;
            let mut conditions = Vec::new();
            set(
                &mut conditions,
                types::STALLED,
                status,
                reason,
                message,
                1,
                now,
            );
            let case = format!("{status} {reason} {message}");
            assert_eq!(refusal.tell(&mut conditions, 2, now), tells, "{case}");
            let told = find(&conditions, types::STALLED).unwrap();
            let said = (&*told.status, &*told.reason, &*told.message);
            let (reason, message) = refusal.stalled();
            assert_eq!(said, ("True", reason, message), "{case}");
        }
        let mut none = Vec::new();
        assert!(refusal.tell(&mut none, 1, Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        set(&mut conditions, "Paused", true, "A", "m", 1, at(1));
        set(&mut conditions, "Paused", true, "B", "n", 2, at(2));
        assert_eq!(
            (conditions[0].last_transition_time.0, conditions.len()),
            (at(1), 1)
        );
        assert_eq!(conditions[0].reason, "B");
        set(&mut conditions, "Paused", false, "C", "", 2, at(3));
        assert_eq!(conditions[0].last_transition_time.0, at(3));
        assert!(!is_true(&conditions, "Paused"));
    }
}
