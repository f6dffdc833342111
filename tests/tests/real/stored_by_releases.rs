//! What a release has stored is read by every later one, through the CRDs of today.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use carillon_api::crds;
use carillon_tests::{kubectl, namespace};
use serde_json::Value;

/// Files with every field that a release stores, a folder for each.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stored");
    let entries = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    entries(&folder).iter().flat_map(|of| entries(of)).collect()
}

fn read(file: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// That every field of `stored` is still there.
fn keeps(path: &str, stored: &Value, found: &Value) {
    match stored {
        Value::Object(fields) => {
            for (name, value) in fields {
                keeps(&format!("{path}.{name}"), value, &found[name]);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                keeps(&format!("{path}[{at}]"), item, &found[at]);
            }
        }
        value => assert_eq!(value, found, "{path}"),
    }
}

#[test]
fn what_a_release_has_stored_survives_the_crds_of_today() {
    let namespace = namespace("stored-by-releases");
    let files = files();
    assert!(files.len() >= crds().len());
    for file in files {
        let name = file.display().to_string();
        let stored = read(&file);
        let text = stored.to_string();
        let create = [
            "create",
            "-n",
            &namespace,
            "--validate=strict",
            "-o",
            "json",
            "-f",
            "-",
        ];
        let answer = kubectl(&create, Some(&text));
        assert!(answer.ok, "{name}: {}", answer.text());
        let mut found = answer.json();
        if stored["status"].is_object() {
            found["status"] = stored["status"].clone();
            let replace = ["replace", "--subresource=status", "-o", "json", "-f", "-"];
            let answer = kubectl(&replace, Some(&found.to_string()));
            assert!(answer.ok, "{name}: {}", answer.text());
            found = answer.json();
        }
        keeps(&name, &stored, &found);
    }
}

/// Otherwise a field could be dropped or renamed unseen.
#[test]
fn the_files_of_the_first_release_have_every_field() {
    let files: Vec<Value> = files().iter().map(|file| read(file)).collect();
    for crd in crds() {
        let kind = &crd.spec.names.kind;
        let schema = &crd.spec.versions[0].schema.as_ref().unwrap();
        let schema = serde_json::to_value(&schema.open_api_v3_schema).unwrap();
        let of_kind = files.iter().filter(|file| file["kind"] == **kind);
        let missing = of_kind.map(|file| {
            let mut missing = BTreeSet::new();
            absent(kind, &schema, file, &mut missing);
            missing
        });
        let in_none = missing.reduce(|all, one| &all & &one);
        assert_eq!(in_none, Some(BTreeSet::new()), "{kind}");
    }
}

/// Types of the object, and fields that are there to be refused.
const OMITTED: [&str; 5] = [
    "apiVersion",
    "kind",
    "inPlaceUpdate",
    "markPodNotReady",
    "rollingUpdateType",
];

/// Fields of a schema that no part of an object has. Templates are those of Kubernetes.
fn absent(path: &str, schema: &Value, object: &Value, missing: &mut BTreeSet<String>) {
    let of_kubernetes = [
        "metadata",
        "template",
        "selector",
        "jobTemplate",
        "broadcastJobTemplate",
    ];
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let of_jobs = |text: &str| text.starts_with("Of Jobs.");
        if property["description"].as_str().is_some_and(of_jobs) || OMITTED.contains(&name.as_str())
        {
            continue;
        }
        let values: Vec<&Value> = match object {
            Value::Array(items) => items.iter().map(|item| &item[name]).collect(),
            object => vec![&object[name]],
        };
        let mut values = values.into_iter().filter(|value| !value.is_null());
        let Some(found) = values.next() else {
            missing.insert(path);
            continue;
        };
        if of_kubernetes.contains(&name.as_str()) {
            continue;
        }
        let inner = if property["type"] == "array" {
            &property["items"]
        } else {
            property
        };
        absent(&path, inner, found, missing);
    }
}
