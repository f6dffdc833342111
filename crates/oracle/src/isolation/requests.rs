//! S18: what the operator asks for, whatever the answer.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};

use super::identities::Identities;
use crate::history::{History, Key};
use crate::invariant::Invariant::S18;
use crate::object::{EVENTS, LEASES};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// When nobody else has changed anything for so long, nothing is urgent: back-offs have grown.
const QUIET: SignedDuration = SignedDuration::from_mins(1);
/// Requests for one object in a minute that is quiet. Three instances that lead at once each write the status
/// for the begin and the end of a run, and are refused; a loop asks once a second.
const MOST_IN_A_QUIET_MINUTE: u64 = 20;
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

/// A request that the operator has sent, whatever became of it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it was sent.
    pub at: Timestamp,
    /// RBAC's word.
    pub verb: &'static str,
    /// What it is for; without a name for all of a resource.
    pub key: Key,
    /// Uid of the object that it means, if it says that.
    pub uid: String,
}

/// S18, of the requests of a run with a `tenant`, leases and events apart:
/// - none is a list or a watch of one namespace: all are served;
/// - each is for an object or a resource, and a question for nothing else besides: no name makes another path
///   of it;
/// - one that says which object it means is sent to the namespace of that;
/// - for one object (a list or watch: for one resource) there are in an hour at most `requests_per_hour`: so
///   many at all, and so many for each change by others in its namespace or of the cluster in that hour;
/// - and in a minute that is quiet at most 12: nobody else has changed anything in the minute before it,
///   nor in it. Lists and watches are exempt while there are faults.
pub fn asked_within_bounds(
    asked: &[Asked],
    history: &History,
    assumptions: &Assumptions,
) -> Verdict {
    let mut checked = Checked::all_of(history);
    if assumptions.tenant.is_none() {
        return Ok(checked);
    }
    let known = Identities::of(history);
    let others = Others::of(history, assumptions);
    let mut in_hour: HashMap<(&Key, bool, i64), u64> = HashMap::new();
    let mut in_minute: HashMap<(&Key, bool, i64), u64> = HashMap::new();
    for asked in asked {
        let (key, namespace) = (&asked.key, &*asked.key.namespace);
        if &*key.resource == LEASES || EVENTS.contains(&&*key.resource) {
            continue;
        }
        let bad = |what: String| violation(asked, &what);
        let many = ["list", "watch"].contains(&asked.verb);
        checked.require(!many || namespace.is_empty(), || {
            bad(format!("a {} of {namespace} alone", asked.verb))
        })?;
        checked.require(asked.verb != "other", || {
            bad("no request of ours has such a path".to_owned())
        })?;
        let of = known.namespace_of(&asked.uid);
        checked.require(of.is_empty() || of == namespace, || {
            bad(format!("it means {}, which is of {of:?}", asked.uid))
        })?;
        // What is read is counted apart: watches end and lists follow them.
        let reads = many || asked.verb == "get";
        let second = asked.at.as_second();
        let count = in_hour
            .entry((key, reads, second.div_euclid(HOUR)))
            .or_default();
        *count += 1;
        let (base, each) = assumptions.requests_per_hour;
        let provoked = others.in_hour(namespace, second.div_euclid(HOUR));
        let most = base + each * provoked;
        checked.require(*count <= most, || {
            bad(format!(
                "{count} requests for it in an hour with {provoked} changes by others; {most} are allowed"
            ))
        })?;
        let minute = second.div_euclid(MINUTE);
        // As long as connections break, watches begin again.
        let healed = assumptions.healed.map(|(at, _)| at + QUIET);
        let weather = many && healed.is_some_and(|at| asked.at < at);
        if others.is_quiet(asked.at) && !weather {
            let count = in_minute.entry((key, reads, minute)).or_default();
            *count += 1;
            checked.require(*count <= MOST_IN_A_QUIET_MINUTE, || {
                bad(format!(
                    "{count} requests for it in a minute in which nothing happens"
                ))
            })?;
        }
    }
    Ok(checked)
}

fn violation(asked: &Asked, what: &str) -> Violation {
    Violation {
        invariant: S18,
        rev: 0,
        at: asked.at,
        what: format!("{} {}: {what}", asked.verb, asked.key),
        key: Some(asked.key.clone()),
        before: None,
        after: None,
        by: None,
    }
}

/// What others have changed.
#[derive(Debug)]
struct Others {
    /// How much, by hour and namespace.
    changes: BTreeMap<(i64, String), u64>,
    /// When.
    times: Vec<Timestamp>,
}

impl Others {
    fn of(history: &History, assumptions: &Assumptions) -> Self {
        let steps = history.steps.iter();
        let steps = steps.filter(|step| !assumptions.ours(step) && &*step.key.resource != LEASES);
        let (mut changes, mut times) = (BTreeMap::new(), Vec::new());
        for step in steps {
            let hour = step.at.as_second().div_euclid(HOUR);
            let of = (hour, step.key.namespace.to_string());
            *changes.entry(of).or_default() += 1;
            times.push(step.at);
        }
        Self { changes, times }
    }

    /// How much in this hour, in a namespace or of the cluster; of the cluster: anywhere.
    fn in_hour(&self, namespace: &str, hour: i64) -> u64 {
        let here = self
            .changes
            .range((hour, String::new())..(hour + 1, String::new()));
        let here =
            here.filter(|((_, of), _)| namespace.is_empty() || of.is_empty() || of == namespace);
        here.map(|(_, many)| many).sum()
    }

    /// Whether nobody has changed anything for long, before this time.
    fn is_quiet(&self, at: Timestamp) -> bool {
        let after = self.times.partition_point(|time| *time <= at);
        let last = after.checked_sub(1).and_then(|last| self.times.get(last));
        last.is_none_or(|last| at.duration_since(*last) >= QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{NODES, PODS};
    use crate::scene::Scene;
    use serde_json::json;

    fn tenant() -> Assumptions {
        Assumptions {
            tenant: Some("evil".into()),
            requests_per_hour: (5, 2),
            ..Assumptions::default()
        }
    }

    fn scene() -> Scene {
        Scene::new()
            .node("n1")
            .job(json!({}))
            .reserve("n1", 1)
            .create("n1", 1)
    }

    /// A request, this many seconds after the begin of the scene.
    fn asked(verb: &'static str, (namespace, name): (&str, &str), uid: &str, at: i64) -> Asked {
        let begin = Scene::new().now();
        Asked {
            at: begin + SignedDuration::from_secs(at),
            verb,
            key: Key {
                resource: PODS.into(),
                namespace: namespace.into(),
                name: name.into(),
            },
            uid: uid.to_owned(),
        }
    }

    fn judged(asked: &[Asked]) -> Result<(), String> {
        let judged = asked_within_bounds(asked, &scene().history(), &tenant());
        judged.map(drop).map_err(|violation| violation.what)
    }

    #[test]
    fn a_request_goes_to_where_what_it_means_is() {
        let name = crate::scene::pod_name("n1", 1);
        let patch = |namespace| asked("patch", (namespace, &name), "pod-n1-1", 1);
        judged(&[patch("ops")]).unwrap();
        let wrong = judged(&[patch("evil")]).unwrap_err();
        assert!(wrong.contains("which is of \"ops\""), "{wrong}");
        judged(&[asked("get", ("evil", "x"), "", 1)]).unwrap();
    }

    #[test]
    fn nothing_is_listed_or_watched_in_one_namespace() {
        judged(&[asked("watch", ("", ""), "", 1)]).unwrap();
        let strange = judged(&[asked("other", ("evil", "x"), "", 1)]).unwrap_err();
        assert!(strange.contains("has such a path"), "{strange}");
        for verb in ["list", "watch"] {
            let wrong = judged(&[asked(verb, ("evil", ""), "", 1)]).unwrap_err();
            assert!(wrong.contains("of evil alone"), "{wrong}");
        }
    }

    #[test]
    fn requests_are_bounded_by_what_others_do() {
        let many =
            |n: i64| -> Vec<Asked> { (0..n).map(|n| asked("get", ("evil", "x"), "", n)).collect() };
        // A node was made, and nothing in this namespace.
        judged(&many(7)).unwrap();
        let wrong = judged(&many(8)).unwrap_err();
        assert!(wrong.contains("8 requests for it in an hour"), "{wrong}");
        // What is read and what is written is counted apart.
        let mixed = [many(7), vec![asked("patch", ("evil", "x"), "", 9)]].concat();
        judged(&mixed).unwrap();
        assert_eq!(NODES, "nodes");
    }

    #[test]
    fn a_loop_is_found_where_nothing_happens() {
        let loose = Assumptions {
            requests_per_hour: (1000, 0),
            ..tenant()
        };
        let judged = |from: i64| {
            let asked: Vec<Asked> = (from..from + 21)
                .map(|n| asked("get", ("evil", "x"), "", n))
                .collect();
            asked_within_bounds(&asked, &scene().history(), &loose)
        };
        judged(10).unwrap();
        let wrong = judged(300).unwrap_err();
        assert!(wrong.what.contains("in which nothing happens"), "{wrong}");
    }

    #[test]
    fn watches_begin_again_as_long_as_connections_break() {
        let healed = |seconds| Assumptions {
            requests_per_hour: (1000, 0),
            healed: Some((
                Scene::new().now() + SignedDuration::from_secs(seconds),
                QUIET,
            )),
            ..tenant()
        };
        let judged = |verb, seconds| {
            let key = if verb == "watch" {
                ("", "")
            } else {
                ("evil", "x")
            };
            let asked: Vec<_> = (300..321).map(|n| asked(verb, key, "", n)).collect();
            asked_within_bounds(&asked, &scene().history(), &healed(seconds))
        };
        judged("watch", 300).unwrap();
        judged("watch", 200).unwrap_err();
        judged("get", 300).unwrap_err();
    }
}
