//! Files with manifests, also of the web.

mod web;

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::render::Screen;

/// What a file of a directory has to end in, as for kubectl.
const KINDS: [&str; 3] = ["json", "yaml", "yml"];

/// Stands for standard input.
pub(crate) const STDIN: &str = "-";

/// Values that aliases stand for in a file, at most: so many, and one for each byte.
const ALIASES: usize = 1000;

/// The objects in a file, in all of a directory, or at a URL, YAML or JSON, that are `wanted`. `what`: how those are
/// called. Other objects are named and left out.
pub(crate) async fn read(
    file: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
    screen: &mut Screen,
) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in files(file)? {
        let text = if file == STDIN {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        } else if web::is_url(&file) {
            web::fetch(&file).await?
        } else {
            std::fs::read_to_string(&file).with_context(|| file.clone())?
        };
        let read = self::objects(&text).with_context(|| format!("{file} is not YAML"))?;
        objects.extend(read);
    }
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

/// The manifests of a directory, by name, or the file itself.
fn files(path: &str) -> Result<Vec<String>> {
    if path == STDIN || web::is_url(path) || !Path::new(path).is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| path.to_owned())? {
        let file = entry?.path();
        let kind = file.extension().and_then(|kind| kind.to_str());
        if file.is_file() && kind.is_some_and(|kind| KINDS.contains(&kind)) {
            files.push(file.display().to_string());
        }
    }
    if files.is_empty() {
        bail!("{path} has no file that ends in .{}", KINDS.join(", ."));
    }
    files.sort();
    Ok(files)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_directory_the_manifests_are_read_by_name_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.json", "c.yml", "README.md"] {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        std::fs::create_dir(dir.path().join("more.yaml")).unwrap();
        let path = dir.path().display().to_string();
        let found = files(&path).unwrap();
        let names: Vec<&str> = found
            .iter()
            .filter_map(|file| file.rsplit('/').next())
            .collect();
        assert_eq!(names, ["a.json", "b.yaml", "c.yml"]);
        assert_eq!(files("a.yaml").unwrap(), ["a.yaml"]);
        assert_eq!(files(STDIN).unwrap(), [STDIN]);
        let empty = dir.path().join("more.yaml").display().to_string();
        let said = files(&empty).unwrap_err().to_string();
        assert!(
            said.ends_with("has no file that ends in .json, .yaml, .yml"),
            "{said}"
        );
    }
}
