//! Files with manifests.

use std::io::Read;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Stands for standard input.
pub(crate) const STDIN: &str = "-";

/// The objects of a kind in a file, YAML or JSON. Other objects are named and left out.
pub(crate) fn read(file: &str, kind: &str) -> Result<Vec<Value>> {
    let text = if file == STDIN {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        std::fs::read_to_string(file).with_context(|| file.to_owned())?
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{file} is not YAML"))?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Object(ref list) if document["kind"] == "List" => {
                let items = list.get("items").and_then(Value::as_array);
                objects.extend(items.into_iter().flatten().cloned());
            }
            Value::Null => {}
            object => objects.push(object),
        }
    }
    let (wanted, others): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .partition(|object| object["kind"] == kind);
    for other in others {
        let (kind, name) = (&other["kind"], &other["metadata"]["name"]);
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        eprintln!("{file}: {} {} is not looked at", text(kind), text(name));
    }
    if wanted.is_empty() {
        bail!("{file} has no {kind}");
    }
    Ok(wanted)
}
