//! A kind at a glance: its YAML, with what may stand there.

use serde_json::{Value, json};

use super::field::Field;
use super::schema::{join, properties, yaml};

/// Columns that the fields take at most before their remarks.
const WIDEST: usize = 44;

/// The spec of a kind as YAML with remarks. `fields`: those of the kind.
pub(super) fn outline(schema: &Value, fields: &[Field]) -> String {
    let mut lines = Vec::new();
    if let Some(spec) = schema["properties"].get("spec") {
        add(&mut lines, ("spec", "spec"), spec, fields, 0);
    }
    let widths = lines.iter().map(|(line, _)| line.chars().count());
    let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
    let line = |(line, remark): &(String, String)| match remark.as_str() {
        "" => format!("{line}\n"),
        _ => format!("{line:width$}  # {remark}\n"),
    };
    lines.iter().map(line).collect()
}

/// Adds the lines of a field: each with its remark.
fn add(
    lines: &mut Vec<(String, String)>,
    (path, name): (&str, &str),
    schema: &Value,
    fields: &[Field],
    depth: usize,
) {
    let Some(field) = fields.iter().find(|field| field.path == path) else {
        return;
    };
    if field.refused {
        return;
    }
    let items = &schema["items"];
    let is_described = |path: &str| fields.iter().any(|field| field.path.starts_with(path));
    let inside = if items.is_object() {
        (format!("{path}[]"), items)
    } else {
        (path.to_owned(), schema)
    };
    let has_fields = is_described(&format!("{}.", inside.0));
    let value = match schema.get("default") {
        _ if has_fields => String::new(),
        Some(default) if *default != json!({}) => format!(" {}", yaml(default)),
        _ => String::new(),
    };
    let line = format!("{}{name}:{value}", "  ".repeat(depth));
    lines.push((line, remark(field, has_fields)));
    if !has_fields {
        return;
    }
    let first = lines.len();
    let depth = depth + if items.is_object() { 2 } else { 1 };
    for (name, property) in properties(inside.1) {
        add(
            lines,
            (&join(&inside.0, name), name),
            property,
            fields,
            depth,
        );
    }
    if items.is_object()
        && let Some((line, _)) = lines.get_mut(first)
    {
        let dash = (depth - 1) * 2;
        line.replace_range(dash..=dash, "-");
    }
}

/// What stands beside a field. Of one with fields of its own the type is seen.
fn remark(field: &Field, has_fields: bool) -> String {
    let type_ = field.type_.replace('`', "").replace("atomic ", "");
    // Of a link the words.
    let type_ = match type_
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]("))
    {
        Some((name, rest)) => format!("{name}{}", rest.split_once(')').map_or("", |(_, of)| of)),
        None => type_,
    };
    let mut remarks = Vec::new();
    if !has_fields {
        remarks.push(type_);
    }
    if field.required {
        remarks.push("required".to_owned());
    }
    if field.immutable {
        remarks.push("immutable".to_owned());
    }
    if let Some(default) = field
        .default
        .as_ref()
        .filter(|default| !default.starts_with('`'))
    {
        remarks.push(format!("default: {default}"));
    }
    remarks.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::field::fields;
    use super::*;

    #[test]
    fn items_of_a_list_begin_with_a_dash_and_remarks_stand_in_a_column() {
        let schema = json!({"properties": {
            "spec": {"required": ["list"], "properties": {"list": {
                "type": "array", "x-kubernetes-list-type": "atomic",
                "items": {"properties": {
                    "b": {"properties": {"c": {"type": "string", "description": "Default: no c."}}},
                    "d": {"type": "boolean", "default": true},
                }},
            }}},
            "status": {"properties": {"seen": {"type": "boolean"}}},
        }});
        let fields = fields("Kind", &schema, &json!({}));
        let wanted = "\
spec:
  list:        # required
    - b:
        c:     # string; default: no c
      d: true  # boolean
";
        assert_eq!(outline(&schema, &fields), wanted);
        assert_eq!(outline(&json!({"properties": {"results": {}}}), &[]), "");
    }
}
