//! DELETE: now, later, or when the last finalizer goes.

use std::sync::Arc;

use carillon_oracle::Key;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Answer, State};
use crate::call::Call;
use crate::clock::seconds;
use crate::kind::Kind;
use crate::selector::Selector;
use crate::status::Status;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// `DeleteOptions`.
#[derive(Debug, Default)]
struct Options {
    grace: Option<i64>,
    uid: Option<String>,
    version: Option<String>,
    policy: Option<String>,
    dry_run: bool,
}

impl Options {
    fn read(call: &Call) -> Result<Self, Status> {
        let empty = json!({});
        let body = call.body.as_ref().unwrap_or(&empty);
        let parameter = |name: &str| {
            let value = Some(call.parameter(name)).filter(|_| call.body.is_none());
            value.filter(|value| !value.is_empty())
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let grace = match (&body["gracePeriodSeconds"], parameter("gracePeriodSeconds")) {
            (Value::Null, None) => None,
            (Value::Null, Some(seconds)) => Some(seconds.parse().ok()),
            (seconds, _) => Some(seconds.as_i64()),
        };
        let grace = grace.map(|seconds| {
            seconds.ok_or_else(|| Status::bad_request("gracePeriodSeconds is not a number"))
        });
        let policy = text(&body["propagationPolicy"]);
        let policy = policy.or_else(|| parameter("propagationPolicy").map(str::to_owned));
        if let Some(other) = policy
            .as_deref()
            .filter(|policy| !["Background", "Foreground", "Orphan"].contains(policy))
        {
            let cause = crate::status::Cause::invalid(
                "propagationPolicy",
                &json!(other),
                "invalid value, must be one of Foreground, Background, Orphan",
            );
            return Err(Status::invalid(
                "meta.k8s.io",
                "DeleteOptions",
                "",
                &[cause],
            ));
        }
        Ok(Self {
            // A negative one means a second.
            grace: grace
                .transpose()?
                .map(|seconds| if seconds < 0 { 1 } else { seconds }),
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            policy,
            dry_run: call.dry_run(),
        })
    }
}

/// What a delete makes of an object.
enum Fate {
    /// It is being deleted already, and this changes nothing.
    Pending,
    /// It is gone at once; first it may be marked as being deleted.
    Gone(Option<Value>),
    /// It stays for a while.
    Marked(Value),
}

impl State {
    pub(super) fn delete(&mut self, call: &Call, kind: &Kind) -> Result<Answer, Status> {
        let options = Options::read(call)?;
        self.delete_one(call, kind, &call.key(&call.name), &options)
    }

    pub(super) fn delete_collection(&mut self, call: &Call, kind: &Kind) -> Result<Answer, Status> {
        let selector = Selector::parse(call.parameter("labelSelector"))?;
        let options = Options::read(call)?;
        let mut objects = self.store.range(&call.resource(), &call.namespace);
        objects.retain(|_, object| selector.matches(object));
        for key in objects.keys() {
            match self.delete_one(call, kind, key, &options) {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
        let items: Vec<Value> = objects
            .values()
            .map(|object| super::list::item(kind, object))
            .collect();
        let list = json!({
            "apiVersion": kind.api_version(),
            "kind": format!("{}List", kind.kind),
            "metadata": {"resourceVersion": self.store.revision().to_string()},
            "items": items,
        });
        Ok(Answer::Object(200, list.into()))
    }

    fn delete_one(
        &mut self,
        call: &Call,
        kind: &Kind,
        key: &Key,
        options: &Options,
    ) -> Result<Answer, Status> {
        let old = self.store.get(key).cloned();
        let old = old.ok_or_else(|| Status::not_found(&key.resource, &key.name))?;
        check_preconditions(kind, &old, options)?;
        if kind.plural == "namespaces" {
            return Ok(self.delete_namespace(call, key, &old));
        }
        let by = call.request();
        let marked = match fate(kind, &old, options, self.now) {
            Fate::Pending => return Ok(deleted(kind, key, &old)),
            Fate::Marked(object) => {
                let changed = object != *old && !options.dry_run;
                let object = if changed {
                    self.store.put(self.now, key, object, &by)
                } else {
                    object.into()
                };
                return Ok(Answer::Object(200, object));
            }
            Fate::Gone(marked) => marked,
        };
        if options.dry_run {
            return Ok(deleted(kind, key, &marked.map_or(old, Arc::new)));
        }
        if let Some(marked) = marked.filter(|marked| *marked != *old) {
            self.store.put(self.now, key, marked, &by);
        }
        let last = self.store.remove(self.now, key, &by);
        Ok(deleted(kind, key, &last.unwrap_or(old)))
    }

    /// A namespace stays until its controller has emptied it.
    fn delete_namespace(&mut self, call: &Call, key: &Key, old: &Arc<Value>) -> Answer {
        if !old["metadata"]["deletionTimestamp"].is_null() || call.dry_run() {
            return Answer::Object(200, old.clone());
        }
        let mut object = (**old).clone();
        object["metadata"]["deletionTimestamp"] = json!(seconds(self.now));
        object["status"]["phase"] = json!("Terminating");
        Answer::Object(200, self.store.put(self.now, key, object, &call.request()))
    }
}

fn check_preconditions(kind: &Kind, old: &Value, options: &Options) -> Result<(), Status> {
    let meta = &old["metadata"];
    let checks = [
        (
            "UID",
            &options.uid,
            &meta["uid"],
            "The object might have been deleted and then recreated",
        ),
        (
            "ResourceVersion",
            &options.version,
            &meta["resourceVersion"],
            "The object might have been modified",
        ),
    ];
    for (what, wanted, found, perhaps) in checks {
        let Some(wanted) = wanted.as_deref().filter(|wanted| *found != **wanted) else {
            continue;
        };
        let found = found.as_str().unwrap_or_default();
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {perhaps}"
        );
        let name = meta["name"].as_str().unwrap_or_default();
        let resource = crate::status::qualified(kind.kind, kind.group);
        return Err(Status::conflict(&resource, name, &why));
    }
    Ok(())
}

fn fate(kind: &Kind, old: &Value, options: &Options, now: Timestamp) -> Fate {
    let mut object = old.clone();
    let pending = !old["metadata"]["deletionTimestamp"].is_null();
    let given = old["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0);
    let mut grace = None;
    if let Some(allowed) = kind.grace {
        if !pending {
            let seconds = allowed(old, options.grace);
            mark(&mut object, now, seconds);
            grace = Some(seconds);
        } else if given > 0 {
            // Once it is set it only gets shorter.
            let Some(shorter) = options.grace.filter(|seconds| *seconds < given) else {
                return Fate::Pending;
            };
            let due = old["metadata"]["deletionTimestamp"].as_str();
            let due = due
                .and_then(|due| due.parse::<Timestamp>().ok())
                .unwrap_or(now);
            let begun = due - SignedDuration::from_secs(given);
            mark(&mut object, begun, shorter);
            grace = Some(shorter);
        }
    }
    let kept = finalizers(kind, old, options.policy.as_deref());
    let held = !kept.is_empty();
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("finalizers");
        if held {
            meta.insert("finalizers".into(), json!(kept));
        }
    }
    match grace {
        Some(0) if !held => Fate::Gone(Some(object)),
        Some(_) => Fate::Marked(object),
        None if held => {
            if !pending || given > 0 {
                mark(&mut object, now, 0);
            }
            Fate::Marked(object)
        }
        None => Fate::Gone(None),
    }
}

fn mark(object: &mut Value, begun: Timestamp, grace: i64) {
    let meta = &mut object["metadata"];
    if meta["deletionTimestamp"].is_null()
        && let Some(generation) = meta["generation"].as_i64()
    {
        meta["generation"] = json!(generation + 1);
    }
    meta["deletionTimestamp"] = json!(seconds(begun + SignedDuration::from_secs(grace)));
    meta["deletionGracePeriodSeconds"] = json!(grace);
}

/// The finalizers with which a deletion begins: those of the garbage collector come and go with the
/// policy; without one they stay as they are, or else come as is usual for the kind.
fn finalizers(kind: &Kind, old: &Value, policy: Option<&str>) -> Vec<String> {
    let all = old["metadata"]["finalizers"].as_array();
    let all: Vec<&str> = all
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let has = |name: &str| all.contains(&name);
    let (orphan, foreground) = match policy {
        Some("Orphan") => (true, false),
        Some("Foreground") => (false, true),
        Some(_) => (false, false),
        None if has(ORPHAN) => (true, false),
        None if has(FOREGROUND) => (false, true),
        None => (kind.orphans, false),
    };
    if orphan == has(ORPHAN) && foreground == has(FOREGROUND) {
        return all.into_iter().map(str::to_owned).collect();
    }
    let others = all
        .into_iter()
        .filter(|name| ![ORPHAN, FOREGROUND].contains(name));
    let added = [(orphan, ORPHAN), (foreground, FOREGROUND)];
    let added = added
        .into_iter()
        .filter_map(|(on, name)| on.then_some(name));
    others.chain(added).map(str::to_owned).collect()
}

/// The reply to a delete that left nothing to wait for.
fn deleted(kind: &Kind, key: &Key, object: &Arc<Value>) -> Answer {
    if kind.returns_deleted {
        return Answer::Object(200, object.clone());
    }
    let mut details = json!({
        "name": &*key.name,
        "kind": kind.plural,
        "uid": object["metadata"]["uid"],
    });
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    });
    Answer::Object(200, status.into())
}
