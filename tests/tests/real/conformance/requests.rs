//! Random requests: mostly sensible, sometimes not.

use std::fmt;

use fastrand::Rng;
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::NAMESPACE;
use super::compare::{Side, Twins};
use super::kinds::{KINDS, Kind};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// What is sent. Texts beginning with `$` stand for what a side knows: [`Probe::request`].
#[derive(Clone, Debug)]
pub(super) struct Probe {
    method: Method,
    path: String,
    query: String,
    content: &'static str,
    accept: &'static str,
    body: Body,
    /// The path of the object that is asked about.
    object: Option<String>,
}

#[derive(Clone, Debug)]
enum Body {
    None,
    Text(&'static str),
    Json(Value),
    /// The object as it was read, with this merged into it.
    Edited(Value),
}

impl Probe {
    /// The request of a step, the same for the same seed.
    pub(super) fn random(rng: &mut Rng, seed: u64, step: usize) -> Self {
        let kind = pick(&KINDS, rng);
        let name = format!("s{seed}-{}", pick(&["a", "a", "b"], rng));
        let path = format!("{}/{name}", kind.collection());
        let mut probe = Self {
            method: Method::GET,
            object: Some(path.clone()),
            path,
            query: String::new(),
            content: JSON,
            accept: if rng.u8(0..8) == 0 { METADATA } else { JSON },
            body: Body::None,
        };
        // At first there is nothing to change.
        let action = if step < 4 { 0 } else { rng.u8(0..100) };
        match action {
            0..20 => probe.create(rng, kind, &name, seed),
            20..35 => probe.replace(rng, kind, step),
            35..60 => probe.patch(rng, kind, step),
            60..72 => probe.write_status(rng, kind, step),
            72..88 => probe.delete(rng),
            88..92 => probe.bind(rng, kind, &name),
            92..97 => probe.list(rng, kind, seed),
            _ => probe.nonsense(rng, kind, seed),
        }
        probe
    }

    fn create(&mut self, rng: &mut Rng, kind: Kind, name: &str, seed: u64) {
        self.method = Method::POST;
        kind.collection().clone_into(&mut self.path);
        let mut object = kind.object(rng);
        object["metadata"] = json!({"name": name, "labels": {"seed": format!("s{seed}")}});
        let wrong = match rng.u8(0..40) {
            0 => json!({"metadata": {"name": "Not.A_Name"}}),
            1 => json!({"metadata": {"name": Value::Null}}),
            2 => json!({"kind": "Other"}),
            3 => json!({"apiVersion": "v9"}),
            4 => json!({"metadata": {"namespace": "other"}}),
            5 => {
                json!({"metadata": {"namespace": NAMESPACE, "uid": "mine", "generation": 7, "creationTimestamp": "2020-01-01T00:00:00Z"}})
            }
            6 => {
                json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}})
            }
            7 => json!({"metadata": {"resourceVersion": "5"}}),
            8 => json!({"metadata": {"labels": {"seed": 7}}}),
            9 => json!({"metadata": {"labels": {"not a label": "x"}}}),
            10 => json!({"metadata": {"odd": 1}, "odd": {"a": 1}}),
            11 if kind != Kind::CronJob => json!({"status": {"phase": "Running", "active": 7}}),
            12 => json!({"spec": Value::Null}),
            13 if kind == Kind::Pod => json!({"spec": {"containers": []}}),
            14 => json!({"spec": "short"}),
            15 if kind == Kind::BroadcastJob => {
                json!({"spec": {"template": {"metadata": {"labels": {"carillon.dev/x": "y"}}}}})
            }
            16 => json!({"metadata": {"finalizers": ["plain"]}}),
            17 => {
                json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": ""}]}})
            }
            18 => {
                json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}]}})
            }
            19..28 => json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}),
            _ => json!({}),
        };
        merge(&mut object, &wrong);
        self.dry_run(rng);
        self.body = Body::Json(object);
    }

    fn meta(rng: &mut Rng, ignored: bool) -> Value {
        if ignored && rng.u8(0..3) == 0 {
            return pick(
                &[
                    json!({"generation": 9, "creationTimestamp": Value::Null}),
                    json!({"deletionTimestamp": "2020-01-01T00:00:00Z"}),
                    json!({"deletionGracePeriodSeconds": 1}),
                ],
                rng,
            );
        }
        pick(
            &[
                json!({"labels": {"x": pick(&["1", "2"], rng)}}),
                json!({"labels": {"x": Value::Null}}),
                json!({"annotations": {"note": pick(&["a", "b"], rng)}}),
                json!({"annotations": Value::Null}),
                json!({"finalizers": ["example.com/a"]}),
                json!({"finalizers": []}),
                json!({"finalizers": Value::Null}),
                json!({"finalizers": ["example.com/c"]}),
                json!({"name": "another"}),
                json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}),
                json!({"ownerReferences": Value::Null}),
                json!({"labels": {"seed": Value::Null}}),
            ],
            rng,
        )
    }

    /// Preconditions of a write, in its metadata.
    fn preconditions(rng: &mut Rng, ignored: bool) -> Value {
        if ignored && rng.bool() {
            let keys = ["resourceVersion", "uid"];
            let nothing = pick(&[Value::Null, json!("")], rng);
            return json!({pick(&keys, rng): nothing});
        }
        pick(
            &[
                json!({}),
                json!({}),
                json!({"resourceVersion": "$version"}),
                json!({"resourceVersion": "$version", "uid": "$uid"}),
                json!({"resourceVersion": "$old"}),
                json!({"uid": "$uid"}),
                json!({"uid": "00000000-0000-4000-8000-000000000000"}),
            ],
            rng,
        )
    }

    /// A change of an object.
    ///
    /// What is ignored of a request shows on a real server all the same, as a new version, when the
    /// time in `managedFields` is another one. So there is always a real change beside it.
    fn edit(rng: &mut Rng, kind: Kind, step: usize) -> Value {
        let mut edit = json!({});
        let ignored = rng.bool();
        if ignored {
            edit = json!({"metadata": {"labels": {"step": step.to_string()}}});
            if rng.u8(0..3) == 0 {
                merge(&mut edit, &json!({"status": kind.status(rng)}));
            }
        }
        if rng.u8(0..3) > 0 {
            merge(&mut edit, &json!({"metadata": Self::meta(rng, ignored)}));
        }
        if rng.bool() {
            merge(&mut edit, &kind.change(rng));
        }
        let preconditions = Self::preconditions(rng, ignored);
        merge(&mut edit, &json!({"metadata": preconditions}));
        edit
    }

    fn replace(&mut self, rng: &mut Rng, kind: Kind, step: usize) {
        self.method = Method::PUT;
        self.dry_run(rng);
        self.body = Body::Edited(Self::edit(rng, kind, step));
    }

    fn patch(&mut self, rng: &mut Rng, kind: Kind, step: usize) {
        self.method = Method::PATCH;
        self.content = MERGE;
        self.dry_run(rng);
        let mut edit = Self::edit(rng, kind, step);
        if rng.u8(0..3) == 0 && (kind.is_built_in() || rng.u8(0..4) == 0) {
            self.content = STRATEGIC;
            if rng.bool() {
                let gone = pick(&["example.com/a", "example.com/b", "example.com/z"], rng);
                edit = json!({"metadata": {
                    "uid": pick(&["$uid", "$uid", "00000000-0000-4000-8000-000000000000"], rng),
                    "$deleteFromPrimitiveList/finalizers": [gone],
                }});
            }
        }
        self.body = Body::Json(edit);
    }

    fn write_status(&mut self, rng: &mut Rng, kind: Kind, step: usize) {
        self.path += "/status";
        let ignored = rng.bool();
        let preconditions = Self::preconditions(rng, ignored);
        let mut edit = json!({"status": kind.status(rng), "metadata": preconditions});
        if ignored {
            merge(&mut edit, &json!({"status": kind.changed_status(step)}));
            merge(
                &mut edit,
                &json!({"spec": {"paused": true}, "sealed": true}),
            );
            merge(&mut edit, &json!({"metadata": Self::meta(rng, ignored)}));
        }
        match rng.u8(0..10) {
            0..3 => {
                self.method = Method::PUT;
                self.body = Body::Edited(edit);
            }
            3 => {}
            4..7 if kind.is_built_in() => {
                self.method = Method::PATCH;
                self.content = STRATEGIC;
                self.body = Body::Json(edit);
            }
            _ => {
                self.method = Method::PATCH;
                self.content = MERGE;
                self.body = Body::Json(edit);
            }
        }
    }

    fn delete(&mut self, rng: &mut Rng) {
        self.method = Method::DELETE;
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if rng.bool() {
            options["gracePeriodSeconds"] = pick(&[json!(0), json!(3), json!(60), json!(-1)], rng);
        }
        if rng.bool() {
            options["preconditions"] = pick(
                &[
                    json!({"uid": "$uid", "resourceVersion": "$version"}),
                    json!({"uid": "$uid"}),
                    json!({"uid": "00000000-0000-4000-8000-000000000000"}),
                    json!({"resourceVersion": "$old"}),
                ],
                rng,
            );
        }
        if rng.u8(0..3) == 0 {
            let policies = ["Background", "Foreground", "Orphan", "Whatever"];
            options["propagationPolicy"] = json!(pick(&policies, rng));
        }
        self.dry_run(rng);
        if rng.u8(0..4) > 0 {
            self.body = Body::Json(options);
        }
    }

    fn bind(&mut self, rng: &mut Rng, kind: Kind, name: &str) {
        self.method = Method::POST;
        self.path = format!("{}/{name}/binding", Kind::Pod.collection());
        self.object = Some(format!("{}/{name}", Kind::Pod.collection()));
        self.accept = JSON;
        self.body = Body::Json(json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": if kind == Kind::Lease && rng.bool() { "" } else { "moon" }},
        }));
    }

    fn list(&mut self, rng: &mut Rng, kind: Kind, seed: u64) {
        kind.collection().clone_into(&mut self.path);
        let more = pick(&["", "%2Cx%3D1", "%2C%21x", "%2Cx%20in%20%281%2C2%29"], rng);
        self.query = format!("labelSelector=seed%3Ds{seed}{more}");
        if rng.u8(0..4) == 0 {
            self.query += "&limit=1";
        }
        self.object = None;
        if rng.u8(0..3) == 0 {
            self.accept = METADATA_LIST;
        }
        if rng.u8(0..5) == 0 {
            self.accept = JSON;
            self.method = Method::DELETE;
            self.query = format!("labelSelector=seed%3Ds{seed}");
        }
    }

    fn nonsense(&mut self, rng: &mut Rng, kind: Kind, seed: u64) {
        let collection = kind.collection();
        self.object = None;
        self.accept = JSON;
        let (method, path, content, body) = match rng.u8(0..11) {
            0 => (Method::POST, collection, JSON, Body::Text("{")),
            1 => (Method::POST, collection, JSON, Body::Text("[]")),
            2 => (Method::POST, collection, JSON, Body::None),
            3 => (Method::PUT, collection, JSON, Body::Json(kind.object(rng))),
            4 => (Method::PATCH, collection, MERGE, Body::Json(json!({}))),
            5 => (Method::GET, "/api/v1/unheard", JSON, Body::None),
            6 => (
                Method::GET,
                "/apis/carillon.dev/v1alpha1/namespaces/conformance/others",
                JSON,
                Body::None,
            ),
            7 => {
                self.path += "/unheard";
                (Method::GET, "", JSON, Body::None)
            }
            8 => {
                self.query = "labelSelector=a%20b%20c".into();
                (Method::GET, collection, JSON, Body::None)
            }
            9 => {
                let object = json!({"metadata": {"name": format!("s{seed}-z")}});
                (
                    Method::POST,
                    "/api/v1/namespaces/absent/pods",
                    JSON,
                    Body::Json(object),
                )
            }
            _ => (Method::PATCH, "", "text/plain", Body::Json(json!({}))),
        };
        self.method = method;
        self.content = content;
        self.body = body;
        if !path.is_empty() {
            path.clone_into(&mut self.path);
        }
    }

    fn dry_run(&mut self, rng: &mut Rng) {
        if rng.u8(0..12) == 0 {
            self.query = "dryRun=All".into();
        }
    }

    /// A look at the object that this request is about.
    pub(super) fn target(&self) -> Option<Self> {
        let path = self.object.clone()?;
        Some(Self {
            method: Method::GET,
            path,
            query: String::new(),
            content: JSON,
            accept: JSON,
            body: Body::None,
            object: self.object.clone(),
        })
    }

    /// The path of the object, when the reply is what it is now.
    pub(super) fn reads(&self) -> Option<&str> {
        let same = self.object.as_deref() == Some(&self.path);
        (self.method == Method::GET && same).then_some(&self.path)
    }

    /// The request to one side, with what that side knows.
    pub(super) fn request(&self, twins: &Twins, side: Side) -> Request<Vec<u8>> {
        let seen = self.object.as_deref().map(|path| twins.seen(path, side));
        let seen = seen.unwrap_or_default();
        let body = match &self.body {
            Body::None => Vec::new(),
            Body::Text(text) => text.as_bytes().to_vec(),
            Body::Json(body) => fill(body, &seen).to_string().into_bytes(),
            Body::Edited(edit) => {
                let mut object = seen
                    .last()
                    .map_or_else(|| json!({}), |last| (*last).clone());
                merge(&mut object, &fill(edit, &seen));
                object.to_string().into_bytes()
            }
        };
        let mut request = Request::builder()
            .method(&self.method)
            .uri(format!("{}?{}", self.path, self.query))
            .header(header::ACCEPT, self.accept);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, self.content);
        }
        request.body(body).unwrap()
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = match &self.body {
            Body::None => String::new(),
            Body::Text(text) => (*text).to_owned(),
            Body::Json(body) => body.to_string(),
            Body::Edited(edit) => format!("what was read with {edit}"),
        };
        let body: String = body.chars().take(400).collect();
        let (method, path, query) = (&self.method, &self.path, &self.query);
        write!(f, "{method} {path}?{query} {} {body}", self.content)
    }
}

/// Puts what is known of an object in the places of `$uid`, `$version` and `$old`.
fn fill(value: &Value, seen: &[&Value]) -> Value {
    let known = |object: Option<&&Value>, field: &str| {
        let text = object.and_then(|object| object["metadata"][field].as_str());
        json!(text.unwrap_or("1"))
    };
    match value {
        Value::String(text) if text == "$uid" => known(seen.last(), "uid"),
        Value::String(text) if text == "$version" => known(seen.last(), "resourceVersion"),
        Value::String(text) if text == "$old" => known(seen.first(), "resourceVersion"),
        Value::Object(map) => {
            let filled = map
                .iter()
                .map(|(key, value)| (key.clone(), fill(value, seen)));
            Value::Object(filled.collect())
        }
        Value::Array(items) => items.iter().map(|item| fill(item, seen)).collect(),
        value => value.clone(),
    }
}

/// Like a merge patch, but a null stays.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

pub(super) fn pick<T: Clone>(from: &[T], rng: &mut Rng) -> T {
    from[rng.usize(0..from.len())].clone()
}
