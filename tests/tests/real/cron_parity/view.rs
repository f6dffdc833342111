//! What the API shows of a scenario in the end, as facts that two clusters can share.
//!
//! A fact is a path and a value: `jobs/c-K1/metadata/labels/app = "x"`. `K1` is the first minute
//! after the start: names and times are the same on both, and shown so that they can be read. Times
//! between minutes are shown by the age of the CronJob, which may differ by a second.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::scenario::Scenario;
use super::side::Side;
use crate::parity::View;

/// Minutes of which names are made readable.
const MINUTES: i64 = 6;
/// Ours to set or to hold, and different on each cluster.
const METADATA: [&str; 6] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "namespace",
    "selfLink",
];
const UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

impl Side {
    /// What there is now.
    pub(crate) fn view(&self, scenarios: &[Scenario], start: Timestamp) -> View {
        let lists =
            ["namespaces", "events"].map(|plural| self.api.list(&format!("/api/v1/{plural}")));
        let [namespaces, events] = lists;
        let [crons, jobs] =
            ["cronjobs", "jobs"].map(|plural| self.api.list(&format!("/apis/batch/v1/{plural}")));
        let requests = self.cluster.audit_events().expect("an audit log");
        let mut view = View::new();
        for scenario in scenarios {
            let name = scenario.name;
            let of = |objects: &[Value]| -> Vec<Value> {
                let here = objects
                    .iter()
                    .filter(|object| object["metadata"]["namespace"] == name);
                here.cloned().collect()
            };
            let (crons, jobs, events) = (of(&crons), of(&jobs), of(&events));
            let by_server = |verb: &'static str| {
                requests.iter().filter(move |request| {
                    request.namespace == name
                        && request.user == self.server
                        && request.resource == "jobs"
                        && request.subresource.is_empty()
                        && request.verb == verb
                        && request.is_stored_write()
                })
            };
            // How often a name was created counts.
            let mut created: Vec<&str> =
                by_server("create").map(|request| &*request.name).collect();
            created.sort_unstable();
            let deleted: BTreeMap<&str, Value> = by_server("delete")
                .map(|request| {
                    let body = request.request_object.as_ref();
                    let policy = body.map(|body| body["propagationPolicy"].clone());
                    (&*request.name, policy.unwrap_or_default())
                })
                .collect();
            let born = crons
                .first()
                .and_then(|cron| cron["metadata"]["creationTimestamp"].as_str()?.parse().ok());
            let all = json!({
                "namespace": namespaces.iter().find(|object| object["metadata"]["name"] == name)
                    .map(|object| &object["status"]["phase"]),
                "cronjobs": by_name(crons.into_iter().map(cron_job)),
                "jobs": by_name(jobs.into_iter().map(job)),
                "created": created,
                "deleted": deleted,
                "events": events.iter().filter_map(event).collect::<BTreeSet<String>>(),
            });
            let mut facts = BTreeSet::new();
            Reader { start, born }.read(&all, "", &mut facts);
            view.insert(name, facts);
        }
        view
    }
}

fn by_name(objects: impl Iterator<Item = Value>) -> BTreeMap<String, Value> {
    let name = |object: &Value| {
        object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    objects.map(|object| (name(&object), object)).collect()
}

fn metadata(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata.retain(|key, _| !METADATA.contains(&&**key));
    if let Some(time) = metadata.get_mut("deletionTimestamp") {
        *time = json!(true);
    }
    for owner in metadata
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        owner["uid"] = json!(owner["uid"].is_string());
    }
}

fn cron_job(mut cron: Value) -> Value {
    metadata(&mut cron);
    for active in cron["status"]["active"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        for unique in ["uid", "resourceVersion"] {
            active[unique] = json!(active[unique].is_string());
        }
    }
    cron
}

fn job(mut job: Value) -> Value {
    metadata(&mut job);
    for place in [
        "/metadata/labels",
        "/spec/template/metadata/labels",
        "/spec/selector/matchLabels",
    ] {
        for uid in UIDS {
            if let Some(value) = job.pointer_mut(&format!("{place}/{uid}")) {
                *value = json!(value.is_string());
            }
            // Slashes in a pointer are written `~1`.
            if let Some(value) = job.pointer_mut(&format!("{place}/{}", uid.replace('/', "~1"))) {
                *value = json!(value.is_string());
            }
        }
    }
    let conditions = job["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut holds: Vec<Value> = conditions
        .iter()
        .filter(|condition| condition["status"] == "True")
        .map(|condition| condition["type"].clone())
        .collect();
    holds.sort_by_key(Value::to_string);
    job["status"] = json!(holds);
    job
}

/// An event about a CronJob, as core/v1 shows it. How often and when it came is not compared: both
/// count, each in its own way.
fn event(event: &Value) -> Option<String> {
    let about = &event["involvedObject"];
    (about["kind"] == "CronJob").then_some(())?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // Only who writes through core/v1 can set the old field; kubectl shows either.
    let component = match text(&event["reportingComponent"]) {
        component if component.is_empty() => text(&event["source"]["component"]),
        component => component,
    };
    Some(format!(
        "{} {} of {component} about {} {}: {}",
        text(&event["type"]),
        text(&event["reason"]),
        text(&about["apiVersion"]),
        text(&about["name"]),
        text(&event["message"]),
    ))
}

/// Turns a value into facts.
struct Reader {
    start: Timestamp,
    born: Option<Timestamp>,
}

impl Reader {
    fn read(&self, value: &Value, path: &str, facts: &mut BTreeSet<String>) {
        let path_to = |key: &str| {
            if path.is_empty() {
                key.to_owned()
            } else {
                format!("{path}/{key}")
            }
        };
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.read(value, &path_to(&self.minutes(key)), facts);
                }
            }
            // The order and number of anything in a list count.
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for (at, item) in items.iter().enumerate() {
                    self.read(item, &path_to(&at.to_string()), facts);
                }
            }
            // One fact for each event.
            Value::Array(items) if path == "events" => {
                let text = |item: &Value| self.minutes(item.as_str().unwrap_or_default());
                facts.extend(items.iter().map(|item| format!("event {}", text(item))));
            }
            Value::String(text) => {
                let shown = self
                    .time(text, path)
                    .unwrap_or_else(|| json!(self.minutes(text)).to_string());
                facts.insert(format!("{path} = {shown}"));
            }
            Value::Null => {}
            other => {
                facts.insert(format!("{path} = {}", self.minutes(&other.to_string())));
            }
        }
    }

    /// With minutes since 1970 replaced by `K1` and so on.
    fn minutes(&self, text: &str) -> String {
        let first = self.start.as_second() / 60;
        (0..MINUTES).fold(text.to_owned(), |text, minute| {
            text.replace(&(first + minute).to_string(), &format!("K{minute}"))
        })
    }

    /// A time, from the start. `None`: it is none.
    fn time(&self, text: &str, path: &str) -> Option<String> {
        let time: Timestamp = text.parse().ok()?;
        let offset = text.get(19..)?;
        let since = time.as_second() - self.start.as_second();
        let minute = since.div_euclid(60);
        if path.ends_with("lastSuccessfulTime") {
            return Some(format!("within K{minute}"));
        }
        if since.rem_euclid(60) == 0 {
            return Some(format!("K{minute} {offset}"));
        }
        let age = time.as_second() - self.born?.as_second();
        Some(format!("{age} seconds after the CronJob {offset}"))
    }
}
