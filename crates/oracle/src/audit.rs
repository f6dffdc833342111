//! Reads who changed what from the API server's audit log, and tells the steps of a history.
//!
//! The policy records at least `Metadata` of every write; with `RequestResponse` for the judged kinds
//! the join is exact, since an answer has the resourceVersion that the write made.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::history::{History, Key, Request, Step};
use crate::object::{self, text};

/// A write that was answered with success.
#[derive(Clone, Debug)]
pub struct Write {
    /// The object; the name is empty for `deletecollection`, and for a create that the log has no
    /// answer of and no body with a name.
    pub key: Key,
    /// The object's resourceVersion in the answer.
    pub rev: Option<u64>,
    /// When the request came.
    pub received: Timestamp,
    /// When it was answered: not before the change was made.
    pub answered: Timestamp,
    /// Who, and how.
    pub request: Arc<Request>,
}

/// One line of the log. `None`: no write, or one that was refused, is not over, or was a dry run.
pub fn read(line: &str) -> Option<Write> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let verb = text(&entry, &["verb"]);
    let writes = ["create", "update", "patch", "delete", "deletecollection"];
    let code = entry
        .pointer("/responseStatus/code")
        .and_then(Value::as_u64);
    let uri = text(&entry, &["requestURI"]);
    let body = entry.get("requestObject");
    let dry = uri.contains("dryRun=") || body.is_some_and(|body| body.get("dryRun").is_some());
    if !writes.contains(&verb)
        || text(&entry, &["stage"]) != "ResponseComplete"
        || !code.is_some_and(|code| (200..300).contains(&code))
        || dry
    {
        return None;
    }
    let of = |field| text(&entry, &["objectRef", field]);
    let response = entry.get("responseObject");
    let in_metadata = |object: Option<&Value>, field| {
        object
            .map_or("", |object| text(object, &["metadata", field]))
            .to_owned()
    };
    let name = Some(of("name").to_owned())
        .filter(|name| !name.is_empty())
        .or_else(|| Some(in_metadata(response, "name")).filter(|name| !name.is_empty()))
        .unwrap_or_else(|| in_metadata(body, "name"));
    let resource = match of("apiGroup") {
        "" => of("resource").to_owned(),
        group => format!("{}.{group}", of("resource")),
    };
    Some(Write {
        key: Key {
            resource: resource.into(),
            namespace: of("namespace").into(),
            name: name.into(),
        },
        rev: in_metadata(response, "resourceVersion").parse().ok(),
        received: text(&entry, &["requestReceivedTimestamp"]).parse().ok()?,
        answered: text(&entry, &["stageTimestamp"]).parse().ok()?,
        request: Arc::new(Request {
            user: text(&entry, &["user", "username"]).to_owned(),
            agent: text(&entry, &["userAgent"]).to_owned(),
            verb: verb.to_owned(),
            uri: uri.to_owned(),
            body: body.cloned(),
        }),
    })
}

/// How the steps of a history were attributed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Attribution {
    /// By the resourceVersion in the answer.
    pub exact: u64,
    /// By object, verb and order.
    pub by_order: u64,
    /// By a `deletecollection` of the namespace.
    pub by_collection: u64,
    /// Not at all.
    pub unknown: u64,
}

/// Tells each step the request that caused it, and when it was made.
///
/// A write whose answer has a resourceVersion caused the step of that revision, or the removal that
/// followed it, or none: it changed nothing. The others are joined in order of time: same object, a verb that can have such an
/// effect, answered after what was certainly asked for before, and asked for before what was certainly
/// answered after.
pub fn attribute(history: &mut History, writes: &[Write]) -> Attribution {
    let mut attribution = Attribution::default();
    let mut causes: Vec<Option<&Write>> = vec![None; history.steps.len()];
    let mut by_rev: HashMap<(&Key, u64), Vec<&Write>> = HashMap::new();
    for write in writes {
        if let Some(rev) = write.rev {
            by_rev.entry((&write.key, rev)).or_default().push(write);
        }
    }
    for (cause, step) in causes.iter_mut().zip(&history.steps) {
        // A later one with the same answer found nothing to change.
        let found = by_rev.get(&(&step.key, step.rev)).into_iter().flatten();
        let made = found.filter(|write| may_cause(write, step));
        *cause = made.copied().min_by_key(|write| write.answered);
        attribution.exact += u64::from(cause.is_some());
    }
    let used: HashSet<*const Write> = causes
        .iter()
        .flatten()
        .map(|write| std::ptr::from_ref(*write))
        .collect();
    let mut left: HashMap<&Key, Vec<&Write>> = HashMap::new();
    for write in writes {
        if !used.contains(&std::ptr::from_ref(write)) {
            left.entry(&write.key).or_default().push(write);
        }
    }
    let mut of_key: BTreeMap<&Key, Vec<usize>> = BTreeMap::new();
    for (at, step) in history.steps.iter().enumerate() {
        of_key.entry(&step.key).or_default().push(at);
    }
    let between = Between::exact(&causes);
    for (key, steps) in of_key {
        let mut candidates = left.remove(key).unwrap_or_default();
        candidates.sort_by_key(|write| write.received);
        attribution.exact += join_deletes(&history.steps, &steps, &mut causes);
        attribution.by_order +=
            join_in_order(&history.steps, &steps, &mut causes, &candidates, &between);
    }
    attribution.by_collection = join_collections(&history.steps, &mut causes, writes, &between);
    let mut now = None;
    for (at, (step, cause)) in history.steps.iter_mut().zip(&causes).enumerate() {
        step.by = cause.map(|write| write.request.clone());
        attribution.unknown += u64::from(cause.is_none());
        let upper = between.not_after[at];
        let made =
            cause.map(|write| upper.map_or(write.answered, |upper| upper.min(write.answered)));
        now = now.max(made).max(between.not_before[at]);
        step.at = now.or(upper).unwrap_or(step.at);
    }
    attribution
}

/// When each step can have been made, by the exact joins: after those before it were asked for, and
/// before those after it were answered.
struct Between {
    not_before: Vec<Option<Timestamp>>,
    not_after: Vec<Option<Timestamp>>,
}

impl Between {
    fn exact(causes: &[Option<&Write>]) -> Self {
        let mut not_before = Vec::with_capacity(causes.len());
        let mut latest = None;
        for cause in causes {
            latest = latest.max(cause.map(|write| write.received));
            not_before.push(latest);
        }
        let mut not_after = Vec::with_capacity(causes.len());
        let mut earliest: Option<Timestamp> = None;
        for cause in causes.iter().rev() {
            let answered = cause.map(|write| write.answered);
            earliest = earliest.into_iter().chain(answered).min();
            not_after.push(earliest);
        }
        not_after.reverse();
        Self {
            not_before,
            not_after,
        }
    }

    fn allow(&self, at: usize, write: &Write) -> bool {
        self.not_before[at].is_none_or(|time| write.answered >= time)
            && self.not_after[at].is_none_or(|time| write.received <= time)
    }
}

/// A delete without grace first marks the object and then removes it: two revisions, and the answer
/// has the second.
fn join_deletes(history: &[Step], steps: &[usize], causes: &mut [Option<&Write>]) -> u64 {
    let mut joined = 0;
    for pair in steps.windows(2) {
        let (marks, removes) = (&history[pair[0]], &history[pair[1]]);
        let deleting = marks.new.as_deref().is_some_and(object::is_deleting);
        let cause = causes[pair[1]].filter(|write| write.request.verb == "delete");
        if causes[pair[0]].is_none() && deleting && removes.new.is_none() && cause.is_some() {
            causes[pair[0]] = cause;
            joined += 1;
        }
    }
    joined
}

fn join_in_order<'w>(
    history: &[Step],
    steps: &[usize],
    causes: &mut [Option<&'w Write>],
    candidates: &[&'w Write],
    between: &Between,
) -> u64 {
    let mut joined = 0;
    let mut next = 0;
    for &at in steps {
        if causes[at].is_some() {
            continue;
        }
        let fits = |write: &&Write| may_cause(write, &history[at]) && between.allow(at, write);
        if let Some(found) = candidates[next..].iter().position(fits) {
            causes[at] = Some(candidates[next + found]);
            next += found + 1;
            joined += 1;
        }
    }
    joined
}

fn join_collections<'w>(
    history: &[Step],
    causes: &mut [Option<&'w Write>],
    writes: &'w [Write],
    between: &Between,
) -> u64 {
    let verb = |write: &&Write| write.request.verb == "deletecollection";
    let collections: Vec<&Write> = writes.iter().filter(verb).collect();
    let mut joined = 0;
    for (at, step) in history.iter().enumerate() {
        if causes[at].is_some() {
            continue;
        }
        let of = |key: &Key| (key.resource.clone(), key.namespace.clone());
        let found = collections.iter().find(|write| {
            of(&write.key) == of(&step.key) && may_cause(write, step) && between.allow(at, write)
        });
        causes[at] = found.copied();
        joined += u64::from(found.is_some());
    }
    joined
}

/// Whether a request can have had such an effect: by its verb, and by the revision in its answer.
fn may_cause(write: &Write, step: &Step) -> bool {
    let verb = &*write.request.verb;
    let path = write.request.uri.split('?').next().unwrap_or_default();
    let deletes = |object: &Option<Arc<Value>>| object.as_deref().is_some_and(object::is_deleting);
    let starts_deletion = deletes(&step.new) && !deletes(&step.old);
    let answered = |rev: u64| {
        let before = step.old.as_deref();
        let last = before.map_or("", |old| text(old, &["metadata", "resourceVersion"]));
        // Whoever takes the last finalizer off is answered with the object as it last was.
        rev == step.rev || step.new.is_none() && last.parse() == Ok(rev)
    };
    if verb != "deletecollection" && !write.rev.is_none_or(answered) {
        return false;
    }
    match (&step.old, &step.new) {
        (None, _) => matches!(verb, "create" | "patch" | "update"),
        (Some(_), None) => matches!(verb, "delete" | "deletecollection" | "patch" | "update"),
        (Some(_), Some(_)) if starts_deletion => {
            matches!(verb, "delete" | "deletecollection") || path.ends_with("/eviction")
        }
        (Some(old), Some(new)) => {
            let differs = |field: &str| old["metadata"][field] != new["metadata"][field];
            let hastened = differs("deletionTimestamp") || differs("deletionGracePeriodSeconds");
            matches!(verb, "patch" | "update")
                // A deletion may be hastened, and a binding or an eviction is created.
                || verb == "delete" && hastened
                || verb == "create" && (path.ends_with("/binding") || path.ends_with("/eviction"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::PODS;
    use crate::scene::Scene;
    use jiff::SignedDuration;
    use serde_json::json;

    /// A line as the API server writes it.
    fn line(verb: &str, name: &str, second: i64, rev: Option<u64>) -> Value {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let time =
            |millis| (start + SignedDuration::from_millis(1000 * second + millis)).to_string();
        let mut entry = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
            "auditID": format!("{verb}-{second}"), "stage": "ResponseComplete",
            "requestURI": format!("/api/v1/namespaces/ops/pods/{name}"), "verb": verb,
            "user": {"username": "system:serviceaccount:carillon:carillon"},
            "userAgent": "carillon/0.1.0",
            "objectRef": {"resource": "pods", "namespace": "ops", "name": name, "apiVersion": "v1"},
            "responseStatus": {"code": 200},
            "requestObject": {"metadata": {"uid": "u"}},
            "requestReceivedTimestamp": time(-10),
            "stageTimestamp": time(10),
        });
        if let Some(rev) = rev {
            entry["responseObject"] = json!({"kind": "PartialObjectMetadata",
                "metadata": {"name": name, "resourceVersion": rev.to_string()}});
        }
        entry
    }

    fn read_all(lines: &[Value]) -> Vec<Write> {
        lines
            .iter()
            .map(|line| read(&line.to_string()).unwrap())
            .collect()
    }

    /// A pod that is created, runs, is deleted and released: revisions 2 to 5.
    fn history() -> History {
        let scene = Scene::new().node("n1").job(json!({})).create("n1", 1);
        let scene = scene
            .phase("n1", 1, "Running")
            .delete_pod("kubectl", "n1", 1)
            .release("n1", 1);
        let mut history = scene.history();
        history.steps.retain(|step| &*step.key.resource == PODS);
        let mut last = None;
        for step in &mut history.steps {
            step.by = None;
            step.old = last.clone();
            if let Some(object) = &mut step.new {
                let mut stored = (**object).clone();
                stored["metadata"]["resourceVersion"] = json!(step.rev.to_string());
                *object = stored.into();
            }
            last.clone_from(&step.new);
        }
        history
    }

    #[test]
    fn a_delete_without_grace_makes_two_revisions() {
        let mut history = history();
        let name = history.steps[0].key.name.to_string();
        let revs: Vec<u64> = history.steps.iter().map(|step| step.rev).collect();
        let writes = read_all(&[
            line("create", &name, 3, Some(revs[0])),
            line("patch", &name, 4, Some(revs[1])),
            line("delete", &name, 5, Some(revs[3])),
        ]);
        let attribution = attribute(&mut history, &writes);
        assert_eq!(verbs(&history), ["create", "patch", "delete", "delete"]);
        assert_eq!((attribution.exact, attribution.unknown), (4, 0));
    }

    fn verbs(history: &History) -> Vec<&str> {
        let verb = |step: &'_ Step| {
            step.by
                .as_ref()
                .map_or("", |by| by.verb.as_str())
                .to_owned()
        };
        history
            .steps
            .iter()
            .map(|step| match verb(step).as_str() {
                "create" => "create",
                "patch" => "patch",
                "update" => "update",
                "delete" => "delete",
                "deletecollection" => "deletecollection",
                _ => "",
            })
            .collect()
    }

    #[test]
    fn a_write_is_read_with_its_author_and_body() {
        let write = read(&line("patch", "p", 1, Some(7)).to_string()).unwrap();
        assert_eq!(write.key.to_string(), "pods ops/p");
        assert_eq!(
            (write.rev, &*write.request.agent),
            (Some(7), "carillon/0.1.0")
        );
        assert_eq!(write.request.body, Some(json!({"metadata": {"uid": "u"}})));
        let mut created = line("create", "", 1, Some(7));
        created["responseObject"]["metadata"]["name"] = json!("made");
        assert_eq!(&*read(&created.to_string()).unwrap().key.name, "made");
    }

    #[test]
    fn what_changed_nothing_is_left_out() {
        let good = line("create", "p", 1, None);
        for (field, value) in [
            ("verb", json!("get")),
            ("stage", json!("ResponseStarted")),
            ("responseStatus", json!({"code": 409})),
            (
                "requestURI",
                json!("/api/v1/namespaces/ops/pods?dryRun=All"),
            ),
            ("requestObject", json!({"dryRun": ["All"]})),
        ] {
            let mut line = good.clone();
            line[field] = value;
            assert!(read(&line.to_string()).is_none(), "{line}");
        }
        assert!(read("{\"verb\":").is_none());
    }

    #[test]
    fn answers_with_revisions_are_joined_exactly() {
        let mut history = history();
        let name = history.steps[0].key.name.to_string();
        let revs: Vec<u64> = history.steps.iter().map(|step| step.rev).collect();
        let writes = read_all(&[
            line("create", &name, 3, Some(revs[0])),
            // It changed nothing, and so made no revision.
            line("patch", &name, 4, Some(revs[0])),
            line("patch", &name, 5, Some(revs[1])),
            line("delete", &name, 6, Some(revs[2])),
            // The answer to a removal has the revision of the last state.
            line("patch", &name, 7, Some(revs[2])),
        ]);
        let attribution = attribute(&mut history, &writes);
        assert_eq!(
            (attribution.exact, attribution.by_order, attribution.unknown),
            (3, 1, 0)
        );
        assert_eq!(verbs(&history), ["create", "patch", "delete", "patch"]);
        let times: Vec<String> = history
            .steps
            .iter()
            .map(|step| step.at.to_string())
            .collect();
        assert_eq!(times[1], "2026-01-01T00:00:05.01Z");
        assert!(times.is_sorted());
    }

    #[test]
    fn without_revisions_object_verb_and_order_decide() {
        let mut history = history();
        let name = history.steps[0].key.name.to_string();
        let writes = read_all(&[
            line("create", &name, 3, None),
            line("patch", &name, 4, None),
            line("delete", &name, 5, None),
            line("update", &name, 6, None),
            line("create", "another", 6, None),
        ]);
        let attribution = attribute(&mut history, &writes);
        assert_eq!((attribution.by_order, attribution.unknown), (4, 0));
        assert_eq!(verbs(&history), ["create", "patch", "delete", "update"]);
    }

    #[test]
    fn what_the_log_does_not_have_stays_unknown() {
        let mut history = history();
        let name = history.steps[0].key.name.to_string();
        let revs: Vec<u64> = history.steps.iter().map(|step| step.rev).collect();
        let writes = read_all(&[
            line("delete", &name, 6, Some(revs[2])),
            // Answered before the deletion was asked for: it cannot be what came after.
            line("patch", &name, 2, None),
        ]);
        let attribution = attribute(&mut history, &writes);
        assert_eq!(verbs(&history), ["patch", "", "delete", ""]);
        assert_eq!((attribution.exact, attribution.unknown), (1, 2));
    }

    #[test]
    fn a_second_delete_is_not_blamed_for_what_a_kubelet_tells_of_a_pod_that_stops() {
        let scene = Scene::new().node("n1").job(json!({})).create("n1", 1);
        let stops = scene.delete_pod("kubectl", "n1", 1);
        let mut history = stops.phase("n1", 1, "Failed").history();
        history.steps.retain(|step| &*step.key.resource == PODS);
        for step in &mut history.steps {
            step.by = None;
        }
        let name = history.steps[0].key.name.to_string();
        let writes = read_all(&[
            line("create", &name, 3, None),
            line("delete", &name, 4, None),
            line("delete", &name, 5, None),
        ]);
        attribute(&mut history, &writes);
        assert_eq!(verbs(&history), ["create", "delete", ""]);
    }

    #[test]
    fn a_collection_is_blamed_where_nothing_else_is_known() {
        let mut history = history();
        let name = history.steps[0].key.name.to_string();
        let writes = read_all(&[
            line("create", &name, 3, None),
            line("patch", &name, 4, None),
            line("deletecollection", "", 5, None),
            line("patch", &name, 6, None),
        ]);
        let attribution = attribute(&mut history, &writes);
        assert_eq!(
            verbs(&history),
            ["create", "patch", "deletecollection", "patch"]
        );
        assert_eq!(attribution.by_collection, 1);
    }

    #[test]
    fn a_write_that_changed_nothing_is_not_blamed_for_what_came_long_after() {
        let mut history = history();
        let name = history.steps[0].key.name.to_string();
        let revs: Vec<u64> = history.steps.iter().map(|step| step.rev).collect();
        // Another object's step, between the creation and what came of it, is known exactly.
        let mut other = history.steps[0].clone();
        other.key.name = "other".into();
        other.rev = revs[0] + 100;
        for step in &mut history.steps[1..] {
            step.rev += 200;
        }
        history.steps.insert(1, other);
        let writes = read_all(&[
            line("create", &name, 3, Some(revs[0])),
            line("patch", &name, 4, None),
            line("create", "other", 60, Some(revs[0] + 100)),
            line("patch", &name, 61, None),
        ]);
        let attribution = attribute(&mut history, &writes);
        assert_eq!(verbs(&history), ["create", "create", "patch", "", ""]);
        assert_eq!((attribution.exact, attribution.by_order), (2, 1));
        assert_eq!(history.steps[2].at, writes[3].answered);
        assert!(history.steps.is_sorted_by_key(|step| step.at));
    }
}
