//! What has to be the same on both sides, and what only alike.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::requests::Probe;
use super::sides::Replies;

/// One of both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    /// The real one.
    Real,
    /// The simulated one.
    Simulated,
}

/// Uids and versions of one side, and which of the other they stand for; and the objects that were
/// seen last.
#[derive(Default)]
pub(super) struct Twins {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<u64, u64>,
    seen: BTreeMap<String, Vec<(Value, Value)>>,
}

/// Times differ; that they are there does not.
const TIMES: [&str; 4] = [
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastProbeTime",
];

impl Twins {
    /// The states of an object that were seen at a path, the newest last.
    pub(super) fn seen(&self, path: &str, side: Side) -> Vec<&Value> {
        let seen = self.seen.get(path).into_iter().flatten();
        seen.map(|(real, simulated)| match side {
            Side::Real => real,
            Side::Simulated => simulated,
        })
        .collect()
    }

    pub(super) fn compare(&mut self, probe: &Probe, replies: &Replies) -> Result<(), String> {
        let (real, simulated) = (&replies.real, &replies.simulated);
        if real.code != simulated.code {
            return Err(format!("code {} is {}", real.code, simulated.code));
        }
        if real.code >= 400 {
            return refusals(&real.body, &simulated.body);
        }
        // An empty list of metadata has `items: null`.
        if real.body.get("items").is_some() {
            self.lists(&real.body, &simulated.body)?;
        } else {
            self.objects(&real.body, &simulated.body, "")?;
        }
        // Only whole objects can be sent back.
        if let Some(path) = probe.reads()
            && real.body["kind"] != "PartialObjectMetadata"
        {
            let states = self.seen.entry(path.to_owned()).or_default();
            states.push((real.body.clone(), simulated.body.clone()));
        }
        Ok(())
    }

    fn lists(&mut self, real: &Value, simulated: &Value) -> Result<(), String> {
        for field in ["kind", "apiVersion"] {
            same(field, &real[field], &simulated[field])?;
        }
        let more = |list: &Value| {
            let token = list["metadata"]["continue"].as_str();
            token.is_some_and(|token| !token.is_empty())
        };
        same("continue", &json!(more(real)), &json!(more(simulated)))?;
        same(
            "remainingItemCount",
            &real["metadata"]["remainingItemCount"],
            &simulated["metadata"]["remainingItemCount"],
        )?;
        let none = |list: &Value| json!(list["items"].is_null());
        same("items", &none(real), &none(simulated))?;
        let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
        let (real, simulated) = (items(real), items(simulated));
        if real.len() != simulated.len() {
            return Err(format!(
                "{} items are {}: {real:?} {simulated:?}",
                real.len(),
                simulated.len()
            ));
        }
        for (index, (real, simulated)) in real.iter().zip(&simulated).enumerate() {
            self.objects(real, simulated, &format!("items[{index}]"))?;
        }
        Ok(())
    }

    pub(super) fn compare_events(
        &mut self,
        (real, simulated): &(Vec<Value>, Vec<Value>),
    ) -> Result<(), String> {
        let kinds = |events: &[Value]| -> Vec<String> {
            let name = |event: &Value| event["object"]["metadata"]["name"].clone();
            events
                .iter()
                .map(|event| format!("{} {}", event["type"], name(event)))
                .collect()
        };
        let (all, ours) = (kinds(real), kinds(simulated));
        if let Some(at) = (0..all.len().max(ours.len())).find(|at| all.get(*at) != ours.get(*at)) {
            let around = |events: &[String]| {
                let (from, to) = (
                    at.saturating_sub(3).min(events.len()),
                    (at + 4).min(events.len()),
                );
                events[from..to].join(", ")
            };
            return Err(format!(
                "of {} and {} events number {at} differs:\n  real:      {}\n  simulated: {}",
                all.len(),
                ours.len(),
                around(&all),
                around(&ours)
            ));
        }
        for (real, simulated) in real.iter().zip(simulated) {
            let at = format!("{} event", real["type"]);
            self.objects(&real["object"], &simulated["object"], &at)?;
        }
        Ok(())
    }

    fn objects(&mut self, real: &Value, simulated: &Value, at: &str) -> Result<(), String> {
        let pod = real["kind"] == "Pod" || real["spec"]["containers"].is_array();
        let (real, simulated) = (without_own_uid(real), without_own_uid(simulated));
        let (real, simulated) = (real.as_object(), simulated.as_object());
        let (Some(real), Some(simulated)) = (real, simulated) else {
            return Err(format!("{at}: not two objects"));
        };
        for key in keys(real, simulated) {
            let at = format!("{at}.{key}");
            let (real, simulated) = (at_key(real, key), at_key(simulated, key));
            match key.as_str() {
                "metadata" => self.meta(real, simulated, &at)?,
                "details" => {
                    let (real, simulated) = (known(real), known(simulated));
                    same(&at, &real, &simulated)?;
                }
                // The simulation leaves out most of a pod's many defaults.
                "spec" | "status" if pod => part(real, simulated, &at)?,
                "spec" if is_batch(real) => {
                    part(real, simulated, &at)?;
                    same(&at, &without_template(real), &without_template(simulated))?;
                }
                _ => same(&at, &timeless(real), &timeless(simulated))?,
            }
        }
        Ok(())
    }

    fn meta(&mut self, real: &Value, simulated: &Value, at: &str) -> Result<(), String> {
        let empty = Map::new();
        let real = real.as_object().unwrap_or(&empty);
        let simulated = simulated.as_object().unwrap_or(&empty);
        for key in keys(real, simulated) {
            let at = format!("{at}.{key}");
            let (real, simulated) = (at_key(real, key), at_key(simulated, key));
            match key.as_str() {
                "managedFields" => {}
                "uid" => self.uid(real, simulated, &at)?,
                "resourceVersion" => self.version(real, simulated, &at)?,
                "ownerReferences" => {
                    let bare = |owners: &Value| {
                        let mut owners = owners.clone();
                        for owner in owners.as_array_mut().into_iter().flatten() {
                            owner["uid"] = json!("");
                        }
                        owners
                    };
                    same(&at, &bare(real), &bare(simulated))?;
                }
                key if TIMES.contains(&key) => {
                    same(&at, &json!(real.is_null()), &json!(simulated.is_null()))?;
                }
                _ => same(&at, real, simulated)?,
            }
        }
        Ok(())
    }

    fn uid(&mut self, real: &Value, simulated: &Value, at: &str) -> Result<(), String> {
        let (Some(real), Some(simulated)) = (real.as_str(), simulated.as_str()) else {
            return same(at, real, simulated);
        };
        let twin = self.uids.entry(real.to_owned());
        let twin = twin.or_insert_with(|| simulated.to_owned());
        if twin != simulated {
            return Err(format!("{at}: another object"));
        }
        Ok(())
    }

    /// Equal versions stay equal, and later ones are later.
    fn version(&mut self, real: &Value, simulated: &Value, at: &str) -> Result<(), String> {
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
        let (Some(real), Some(simulated)) = (number(real), number(simulated)) else {
            return same(at, real, simulated);
        };
        let twin = *self.versions.entry(real).or_insert(simulated);
        let before = self.versions.range(..real).next_back().map(|(_, v)| *v);
        let after = self.versions.range(real + 1..).next().map(|(_, v)| *v);
        if twin == simulated
            && before.is_none_or(|before| before < simulated)
            && after.is_none_or(|after| after > simulated)
        {
            return Ok(());
        }
        Err(format!(
            "{at}: version {real} is {simulated}: its twin {twin}, around {before:?} {after:?}"
        ))
    }
}

fn refusals(real: &Value, simulated: &Value) -> Result<(), String> {
    if !real.is_object() {
        return Ok(());
    }
    for field in ["kind", "apiVersion", "status", "reason", "code"] {
        same(field, &real[field], &simulated[field])?;
    }
    same(
        "details",
        &known(&real["details"]),
        &known(&simulated["details"]),
    )
}

/// The details by which a client knows what was refused.
fn known(details: &Value) -> Value {
    json!([details["name"], details["group"], details["kind"]])
}

/// Whether all that one side has is also on the other, in the same way.
fn part(real: &Value, simulated: &Value, at: &str) -> Result<(), String> {
    match (real, simulated) {
        (Value::Object(real), Value::Object(simulated)) => {
            for (key, value) in simulated {
                let found = at_key(real, key);
                if TIMES.contains(&key.as_str()) {
                    continue;
                }
                part(found, value, &format!("{at}.{key}"))?;
            }
            Ok(())
        }
        (Value::Array(real), Value::Array(simulated)) if real.len() == simulated.len() => {
            for (index, (real, simulated)) in real.iter().zip(simulated).enumerate() {
                part(real, simulated, &format!("{at}[{index}]"))?;
            }
            Ok(())
        }
        _ => same(at, real, simulated),
    }
}

/// Whether this is the spec of a Job or a CronJob: an item of a list does not say what it is.
fn is_batch(spec: &Value) -> bool {
    !spec["completionMode"].is_null() || !spec["concurrencyPolicy"].is_null()
}

/// All but the template of the pods, of whose many defaults the simulation leaves out most.
fn without_template(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for field in ["template", "jobTemplate"] {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(field);
        }
    }
    spec
}

/// The object without its uid in its labels and its spec, where those of a Job have it.
fn without_own_uid(object: &Value) -> Value {
    fn replace(value: &mut Value, uid: &Value) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| replace(value, uid)),
            Value::Array(items) => items.iter_mut().for_each(|item| replace(item, uid)),
            value if value == uid => *value = json!("own uid"),
            _ => {}
        }
    }
    let mut object = object.clone();
    let uid = object["metadata"]["uid"].clone();
    if uid.is_string() {
        replace(&mut object["metadata"]["labels"], &uid);
        replace(&mut object["spec"], &uid);
        // To look for what is not there leaves a null.
        for part in [&["spec"][..], &["metadata", "labels"]] {
            if let [parents @ .., last] = part
                && let Some(parent) = parents
                    .iter()
                    .try_fold(&mut object, |o, key| o.get_mut(key))
                && parent[*last].is_null()
                && let Some(parent) = parent.as_object_mut()
            {
                parent.remove(*last);
            }
        }
    }
    object
}

fn same(at: &str, real: &Value, simulated: &Value) -> Result<(), String> {
    if real == simulated {
        return Ok(());
    }
    Err(format!("{at}: {real} is {simulated}"))
}

fn timeless(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let time = TIMES.contains(&key.as_str());
                (
                    key.clone(),
                    if time { json!("time") } else { timeless(value) },
                )
            })
            .collect(),
        Value::Array(items) => items.iter().map(timeless).collect(),
        value => value.clone(),
    }
}

fn keys<'a>(a: &'a Map<String, Value>, b: &'a Map<String, Value>) -> Vec<&'a String> {
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn at_key<'a>(map: &'a Map<String, Value>, key: &str) -> &'a Value {
    map.get(key).unwrap_or(&Value::Null)
}
