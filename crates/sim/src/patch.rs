//! Patches: merge and strategic merge.

use serde_json::{Map, Value};

use crate::status::Status;

/// Lists that a strategic merge goes into, with the key of their items.
const MERGED: [(&str, &str); 15] = [
    ("conditions", "type"),
    ("ownerReferences", "uid"),
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("env", "name"),
    ("ports", "containerPort"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("volumes", "name"),
    ("imagePullSecrets", "name"),
    ("hostAliases", "ip"),
    ("podIPs", "ip"),
    ("addresses", "type"),
    ("topologySpreadConstraints", "topologyKey"),
];
/// Lists of strings that a strategic merge adds to.
const UNITED: [&str; 2] = ["finalizers", "podCIDRs"];
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// RFC 7386.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    let map = as_object(target);
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// What kubectl and controllers send for built-in kinds.
pub(crate) fn strategic(target: &mut Value, patch: &Value) -> Result<(), Status> {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return Ok(());
    };
    let map = as_object(target);
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => map.clear(),
        Some("delete") => {
            map.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(unknown(other)),
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            let gone = value.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(items) = map.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !gone.contains(item));
            }
        } else if key.starts_with('$') {
            // Directives about order change nothing that is judged here.
        } else if value.is_null() {
            map.remove(key);
        } else if let Some(items) = value.as_array() {
            let entry = map.entry(key.clone()).or_insert(Value::Null);
            list(entry, key, items)?;
        } else {
            strategic(map.entry(key.clone()).or_insert(Value::Null), value)?;
        }
    }
    Ok(())
}

fn list(target: &mut Value, key: &str, patch: &[Value]) -> Result<(), Status> {
    let before = target.as_array().cloned().unwrap_or_default();
    let merge_key = MERGED.iter().find(|(list, _)| *list == key);
    let items = if let Some((_, id)) = merge_key {
        let same = |a: &Value, b: &Value| a[*id] == b[*id];
        let merged = merge_items(before.clone(), patch, same)?;
        in_order(merged, patch, &before, same)
    } else if UNITED.contains(&key) {
        let same = |a: &Value, b: &Value| a == b;
        let mut united = before.clone();
        united.extend(patch.iter().filter(|item| !before.contains(item)).cloned());
        in_order(united, patch, &before, same)
    } else {
        patch.to_vec()
    };
    *target = Value::Array(items);
    Ok(())
}

fn merge_items(
    mut items: Vec<Value>,
    patch: &[Value],
    same: impl Fn(&Value, &Value) -> bool,
) -> Result<Vec<Value>, Status> {
    if patch.iter().any(|item| item["$patch"] == "replace") {
        items.clear();
    }
    for item in patch {
        let found = items.iter().position(|old| same(old, item));
        match (item["$patch"].as_str(), found) {
            (Some("replace"), _) | (Some("delete"), None) => {}
            (Some("delete"), Some(found)) => {
                items.remove(found);
            }
            (_, Some(found)) => strategic(&mut items[found], item)?,
            (_, None) => {
                let mut new = Value::Null;
                strategic(&mut new, item)?;
                items.push(new);
            }
        }
    }
    Ok(items)
}

/// What the patch names in the order of the patch, the others as they were; of one of each kind the
/// one that was there earlier comes first, if both were there, and else that of the patch.
fn in_order(
    items: Vec<Value>,
    patch: &[Value],
    before: &[Value],
    same: impl Fn(&Value, &Value) -> bool,
) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item));
    let (mut named, others): (Vec<Value>, Vec<Value>) = items
        .into_iter()
        .partition(|item| place(patch, item).is_some());
    named.sort_by_key(|item| place(patch, item));
    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    for other in others {
        let earlier = |item: &Value| match (place(before, &other), place(before, item)) {
            (Some(other), Some(item)) => other < item,
            _ => false,
        };
        while let Some(item) = named.next_if(|item| !earlier(item)) {
            ordered.push(item);
        }
        ordered.push(other);
    }
    ordered.extend(named);
    ordered
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

fn unknown(directive: &str) -> Status {
    Status::bad_request(format!("Unknown patch directive: {directive:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_replaces_lists_and_removes_nulls() {
        let mut target = json!({"a": {"b": 1, "c": [1]}, "d": "e"});
        merge(
            &mut target,
            &json!({"a": {"b": null, "c": [2], "f": {"g": null, "h": 1}}, "d": {"i": 1}}),
        );
        assert_eq!(
            target,
            json!({"a": {"c": [2], "f": {"h": 1}}, "d": {"i": 1}})
        );
    }

    #[test]
    fn a_strategic_patch_knows_the_lists_of_built_in_kinds() {
        let mut pod = json!({
            "metadata": {"finalizers": ["a/a", "b/b"], "labels": {"x": "1"}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]},
            "spec": {"tolerations": [{"key": "a"}]},
        });
        strategic(
            &mut pod,
            &json!({
                "metadata": {
                    "$deleteFromPrimitiveList/finalizers": ["a/a"],
                    "labels": {"x": null, "y": "2"},
                },
                "status": {"conditions": [
                    {"type": "Ready", "status": "False"},
                    {"type": "PodScheduled", "status": "True"},
                ]},
                "spec": {"tolerations": [{"key": "b"}]},
            }),
        )
        .unwrap();
        assert_eq!(
            pod,
            json!({
                "metadata": {"finalizers": ["b/b"], "labels": {"y": "2"}},
                "status": {"conditions": [
                    {"type": "Ready", "status": "False", "reason": "r"},
                    {"type": "PodScheduled", "status": "True"},
                ]},
                "spec": {"tolerations": [{"key": "b"}]},
            })
        );
        let first = json!({"status": {"conditions": [{"type": "New", "status": "True"}]}});
        strategic(&mut pod, &first).unwrap();
        assert_eq!(pod["status"]["conditions"][0]["type"], "New");
        let patch = json!({
            "metadata": {"finalizers": ["c/c", "b/b"]},
            "status": {"conditions": [{"type": "Ready", "$patch": "delete"}]},
        });
        strategic(&mut pod, &patch).unwrap();
        assert_eq!(pod["metadata"]["finalizers"], json!(["c/c", "b/b"]));
        assert_eq!(pod["status"]["conditions"].as_array().unwrap().len(), 2);
    }
}
