//! Numbers that go on changing are not all told.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::whole::{Whole, image};
use super::world::at;
use crate::object_key::{DAEMON_SET, NATIVE_DAEMON_SET};
use crate::plan::Act;

/// What is planned, and when the next plan is due.
fn planned(set: &Whole) -> (Vec<&'static str>, Option<Timestamp>) {
    let plan = set.plan();
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    (actions.map(Act::word).collect(), plan.wake)
}

/// Two nodes, the pod of the first of which has become ready since the status was told.
fn one_of_two_became_ready() -> Whole {
    let mut set = Whole::new(NATIVE_DAEMON_SET, None, &json!({}));
    set.settle();
    let ready = |set: &mut Whole, ready: &[Option<Timestamp>]| {
        for (pod, ready) in set.pods.values_mut().zip(ready) {
            pod.ready = *ready;
        }
    };
    ready(&mut set, &[None, None]);
    set.settle();
    assert_eq!(set.set.status.number_ready, 0);
    ready(&mut set, &[Some(at(100)), None]);
    set
}

#[test]
fn a_status_that_others_follow_waits_for_half_a_second_after_the_last_one() {
    let writes = (vec!["write_status"], None);
    let half_a_second_later = |told: Timestamp| told + SignedDuration::from_millis(500);
    for (told_at, expected) in [
        (None, writes.clone()),
        (Some(at(100)), (vec![], Some(half_a_second_later(at(100))))),
        (Some(at(99)), writes.clone()),
        // The clock was set back.
        (Some(at(101)), writes),
    ] {
        let mut set = one_of_two_became_ready();
        set.told_at = told_at;
        assert_eq!(planned(&set), expected, "{told_at:?}");
    }
}

#[test]
fn what_is_no_number_and_what_nothing_follows_is_told_at_once() {
    let told_just_now = |mut set: Whole| {
        set.told_at = Some(at(set.now));
        set
    };
    let mut all_ready = one_of_two_became_ready();
    for pod in all_ready.pods.values_mut() {
        pod.ready = Some(at(100));
    }
    assert_eq!(planned(&told_just_now(all_ready)).0, ["write_status"]);
    let mut edited = one_of_two_became_ready();
    edited.edit(&image("2"));
    assert!(planned(&told_just_now(edited)).0.contains(&"write_status"));
    // A condition changes, since no pod is ready any more.
    let mut ours = Whole::new(DAEMON_SET, None, &json!({}));
    ours.settle();
    for pod in ours.pods.values_mut() {
        pod.ready = None;
    }
    assert_eq!(planned(&told_just_now(ours)).0, ["write_status"]);
}
