//! Which active pods of a Job go first when there are too many (upstream: `ActivePods` in
//! `controller_utils.go`, `activePodsForRemoval` in `job_controller.go`).

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;

use super::pod::{JobPod, Named};
use super::spec::Spec;
use crate::pod::PodPhase;

/// Which of two active pods is deleted first: `Less`, the first one. Pods that have come less far go
/// before others: without a node, not running, not ready, ready for a shorter time, restarted more
/// often, created later. Costs of deletion and the spread over nodes play no part.
pub fn rank(a: &JobPod, b: &JobPod) -> Ordering {
    let key = |pod: &JobPod| {
        let restarts = (pod.restarts.most, pod.restarts.most_of_sidecars);
        let progress = (pod.assigned, phase(pod.phase), pod.ready.map(latest_first));
        (progress, Reverse(restarts), latest_first(pod.created))
    };
    key(a).cmp(&key(b))
}

/// The `many` pods of these that are deleted first, in that order; among equals, by name.
pub fn surplus<'a>(pods: impl Iterator<Item = Named<'a>>, many: usize) -> Vec<Named<'a>> {
    if many == 0 {
        return Vec::new();
    }
    let mut pods: Vec<_> = pods.collect();
    pods.sort_unstable_by(by_rank);
    pods.truncate(many);
    pods
}

/// Active pods of an Indexed Job, parted into those that have to go however many are wanted, and those
/// that may stay. Without an index, or with one from `completions` on, a pod has to go; of those that
/// share an index, the one that would be deleted last may stay. Both are in order of index.
pub fn misplaced<'a>(
    pods: impl Iterator<Item = Named<'a>>,
    completions: u32,
) -> (Vec<Named<'a>>, Vec<Named<'a>>) {
    let mut pods: Vec<_> = pods.collect();
    pods.sort_unstable_by(|a, b| a.1.index.cmp(&b.1.index).then_with(|| by_rank(a, b)));
    let (mut go, mut stay) = (Vec::new(), Vec::new());
    for same in pods.chunk_by(|a, b| a.1.index == b.1.index) {
        let valid = same[0].1.index.is_some_and(|index| index < completions);
        let (gone, best) = same.split_at(same.len() - usize::from(valid));
        go.extend_from_slice(gone);
        stay.extend_from_slice(best);
    }
    (go, stay)
}

/// The active pods that have to go: of an Indexed Job all that are misplaced, and then those that are
/// deleted first, until there are `at_least` as many. No cap: the caller's.
pub fn for_removal<'a>(
    pods: impl Iterator<Item = Named<'a>>,
    spec: &Spec,
    at_least: usize,
) -> Vec<Named<'a>> {
    if !spec.is_indexed() {
        return surplus(pods, at_least);
    }
    let completions = spec.completions.unwrap_or(0);
    let (mut go, stay) = misplaced(pods, u32::try_from(completions).unwrap_or(0));
    go.extend(surplus(stay.into_iter(), at_least.saturating_sub(go.len())));
    go
}

fn by_rank(a: &Named<'_>, b: &Named<'_>) -> Ordering {
    rank(a.1, b.1).then_with(|| a.0.cmp(b.0))
}

fn phase(phase: PodPhase) -> u8 {
    match phase {
        PodPhase::Pending | PodPhase::Succeeded | PodPhase::Failed => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
    }
}

/// Later before earlier, and a time that is not known before all.
fn latest_first(time: Timestamp) -> Reverse<Timestamp> {
    let known = time > Timestamp::UNIX_EPOCH;
    Reverse(if known { time } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{CompletionMode, Restarts};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(phase: PodPhase) -> JobPod {
        JobPod {
            phase,
            assigned: true,
            ..JobPod::default()
        }
    }

    fn ready(second: i64, restarts: (i32, i32), created: i64) -> JobPod {
        JobPod {
            ready: Some(at(second)),
            restarts: Restarts {
                most: restarts.0,
                most_of_sidecars: restarts.1,
                sum: 99,
            },
            created: at(created),
            ..pod(PodPhase::Running)
        }
    }

    fn indexed(index: Option<u32>, phase: PodPhase) -> JobPod {
        JobPod {
            index,
            ..pod(phase)
        }
    }

    fn named<'a>(pods: &'a [(&'a str, JobPod)]) -> impl Iterator<Item = Named<'a>> {
        pods.iter().map(|(name, pod)| (*name, pod))
    }

    fn names<'a>(pods: &[Named<'a>]) -> Vec<&'a str> {
        pods.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn pods_that_have_come_less_far_are_deleted_first() {
        let unassigned = JobPod {
            assigned: false,
            ..pod(PodPhase::Pending)
        };
        let in_order = [
            ("without a node", unassigned),
            ("pending", pod(PodPhase::Pending)),
            ("unknown", pod(PodPhase::Unknown)),
            ("not ready", pod(PodPhase::Running)),
            ("ready since nobody knows when", ready(0, (3, 0), 900)),
            ("ready for a short time", ready(800, (3, 0), 100)),
            ("ready for longer, restarted more", ready(200, (3, 0), 100)),
            ("sidecar restarted", ready(200, (2, 2), 100)),
            ("sidecar restarted less", ready(200, (2, 0), 0)),
            ("created later", ready(200, (2, 0), 900)),
            ("the oldest", ready(200, (2, 0), 100)),
        ];
        for (place, (what, one)) in in_order.iter().enumerate() {
            for (other_place, (other_what, other)) in in_order.iter().enumerate() {
                let expected = place.cmp(&other_place);
                assert_eq!(rank(one, other), expected, "{what} and {other_what}");
            }
        }
        let mut reversed = in_order.clone();
        reversed.reverse();
        let all = surplus(named(&reversed), in_order.len());
        assert_eq!(names(&all), in_order.each_ref().map(|(what, _)| *what));
        assert_eq!(
            names(&surplus(named(&reversed), 2)),
            ["without a node", "pending"]
        );
    }

    #[test]
    fn among_equals_the_name_decides_and_no_more_go_than_there_are() {
        let pods = ["c", "a", "b"].map(|name| (name, pod(PodPhase::Running)));
        assert_eq!(names(&surplus(named(&pods), 9)), ["a", "b", "c"]);
        assert_eq!(names(&surplus(named(&pods), 1)), ["a"]);
        assert!(surplus(named(&pods), 0).is_empty());
    }

    #[test]
    fn pods_without_a_valid_index_have_to_go() {
        let pods = [
            ("none", indexed(None, PodPhase::Running)),
            ("two", indexed(Some(2), PodPhase::Pending)),
            ("five", indexed(Some(5), PodPhase::Running)),
            ("six", indexed(Some(6), PodPhase::Running)),
        ];
        let (go, stay) = misplaced(named(&pods), 6);
        assert_eq!(
            (names(&go), names(&stay)),
            (vec!["none", "six"], vec!["two", "five"])
        );
        let (go, stay) = misplaced(named(&pods), 0);
        assert_eq!((names(&go).len(), stay.len()), (4, 0));
    }

    #[test]
    fn the_best_of_an_index_stays() {
        let pods = [
            ("5-pending", indexed(Some(5), PodPhase::Pending)),
            ("0-running-b", indexed(Some(0), PodPhase::Running)),
            ("3-pending", indexed(Some(3), PodPhase::Pending)),
            ("0-running-a", indexed(Some(0), PodPhase::Running)),
            ("3-running", indexed(Some(3), PodPhase::Running)),
            ("0-pending", indexed(Some(0), PodPhase::Pending)),
            ("6-running", indexed(Some(6), PodPhase::Running)),
            ("6-pending", indexed(Some(6), PodPhase::Pending)),
        ];
        let (go, stay) = misplaced(named(&pods), 6);
        let gone = [
            "0-pending",
            "0-running-a",
            "3-pending",
            "6-pending",
            "6-running",
        ];
        assert_eq!(names(&go), gone);
        assert_eq!(names(&stay), ["0-running-b", "3-running", "5-pending"]);
    }

    #[test]
    fn the_misplaced_go_before_those_that_are_too_many() {
        let pods = [
            ("best-of-0", indexed(Some(0), PodPhase::Running)),
            ("other-of-0", indexed(Some(0), PodPhase::Pending)),
            ("none", indexed(None, PodPhase::Running)),
            ("pending-1", indexed(Some(1), PodPhase::Pending)),
            ("running-2", indexed(Some(2), PodPhase::Running)),
        ];
        let spec = Spec {
            completions: Some(3),
            mode: CompletionMode::Indexed,
            ..Spec::default()
        };
        let cases = [
            (0, &["none", "other-of-0"][..]),
            (2, &["none", "other-of-0"]),
            (3, &["none", "other-of-0", "pending-1"]),
            (
                9,
                &["none", "other-of-0", "pending-1", "best-of-0", "running-2"],
            ),
        ];
        for (at_least, expected) in cases {
            let gone = for_removal(named(&pods), &spec, at_least);
            assert_eq!(names(&gone), expected, "{at_least}");
        }
        let plain = for_removal(named(&pods), &Spec::default(), 1);
        assert_eq!(names(&plain), ["other-of-0"]);
        assert!(for_removal(named(&pods), &Spec::default(), 0).is_empty());
    }
}
