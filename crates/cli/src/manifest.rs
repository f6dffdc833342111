//! Files with manifests.

use std::io::Read;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::render::Screen;

/// Stands for standard input.
pub(crate) const STDIN: &str = "-";

/// Values that aliases stand for in a file, at most: so many, and one for each byte.
const ALIASES: usize = 1000;

/// The objects in a file, YAML or JSON, that are `wanted`, and what those are called. Other objects are named and left
/// out.
pub(crate) fn read(
    file: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
    screen: &mut Screen,
) -> Result<Vec<Value>> {
    let text = if file == STDIN {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        std::fs::read_to_string(file).with_context(|| file.to_owned())?
    };
    let objects = objects(&text).with_context(|| format!("{file} is not YAML"))?;
    let (found, others): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(wanted);
    for other in others {
        let (kind, name) = (&other["kind"], &other["metadata"]["name"]);
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        screen.aside(&format!(
            "{file}: {} {} is not looked at",
            text(kind),
            text(name)
        ));
    }
    if found.is_empty() {
        bail!("{file} has no {what}");
    }
    Ok(found)
}

/// The objects of a text, also those in lists.
pub(crate) fn objects(text: &str) -> Result<Vec<Value>> {
    // What is written once and meant many times may make a file larger, but not a thousand times.
    let limits = serde_saphyr::alias_limits! {
        max_total_replayed_events: ALIASES + text.len(),
    };
    let options = serde_saphyr::options! { alias_limits: limits };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
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
    Ok(objects)
}
