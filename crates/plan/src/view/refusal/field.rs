//! Fields as the API server names them: `spec.template.spec.containers[0].image`.

use serde_json::Value;

/// The way to a field.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Field(Vec<Part>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Name(String),
    /// The place in a list, or the key of a map.
    Of(String),
}

impl Field {
    /// Reads it. A key in brackets may have dots in it.
    pub(super) fn read(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((key, behind)) =
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            {
                parts.push(Part::Of(key.to_owned()));
                rest = behind;
                continue;
            }
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            // A bracket that is never closed belongs to the name.
            let end = if end == 0 { rest.len() } else { end };
            parts.push(Part::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        Self(parts)
    }

    /// Where it stands.
    pub(super) fn parent(&self) -> Option<Self> {
        let (_, parent) = self.0.split_last()?;
        Some(Self(parent.to_vec()))
    }

    /// Its own name.
    pub(super) fn name(&self) -> Option<&str> {
        match self.0.last()? {
            Part::Name(name) | Part::Of(name) => Some(name),
        }
    }

    /// Another one from there on.
    pub(super) fn then(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().cloned());
        self
    }
}

/// What stands there. Of lists whose place is not told, the first item that has it.
pub(super) fn value_at<'v>(value: &'v Value, field: &Field) -> Option<&'v Value> {
    at(value, &field.0)
}

fn at<'v>(value: &'v Value, parts: &[Part]) -> Option<&'v Value> {
    let Some((part, rest)) = parts.split_first() else {
        return Some(value);
    };
    match (value, part) {
        (Value::Object(fields), Part::Name(name) | Part::Of(name)) => at(fields.get(name)?, rest),
        (Value::Array(items), Part::Of(place)) => {
            at(items.get(place.parse::<usize>().ok()?)?, rest)
        }
        (Value::Array(items), Part::Name(_)) => items.iter().find_map(|item| at(item, parts)),
        _ => None,
    }
}

/// Names of the fields that a schema has there.
pub(super) fn names_at(schema: &Value, field: &Field) -> Vec<String> {
    let mut at = schema;
    for part in &field.0 {
        let items = &at["items"];
        // Places in lists are not always told.
        if items.is_object() && matches!(part, Part::Name(_)) {
            at = items;
        }
        at = match part {
            Part::Name(name) => &at["properties"][name.as_str()],
            Part::Of(_) if at["items"].is_object() => &at["items"],
            Part::Of(_) => &at["additionalProperties"],
        };
    }
    if at["items"].is_object() {
        at = &at["items"];
    }
    let properties = at["properties"].as_object().into_iter().flatten();
    properties.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_found_where_it_is_written() {
        let manifest =
            json!({"spec": {"containers": [{"name": "a"}, {"image": 5}], "labels": {"a.b/c": 1}}});
        let found = |field: &str| value_at(&manifest, &Field::read(field)).cloned();
        assert_eq!(found("spec.containers[0].name"), Some(json!("a")));
        assert_eq!(found("spec.containers.image"), Some(json!(5)));
        assert_eq!(found("spec.labels[a.b/c]"), Some(json!(1)));
        assert_eq!(found(""), Some(manifest.clone()));
        for nowhere in [
            "spec.none",
            "spec.containers[7].name",
            "spec.containers[x",
            "..",
            "[",
            "<nil>",
        ] {
            assert_eq!(found(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn a_schema_tells_the_names_of_fields_also_in_lists() {
        let schema = json!({"properties": {"spec": {"properties": {
            "list": {"items": {"properties": {"name": {}, "image": {}}}},
            "map": {"additionalProperties": {"properties": {"x": {}}}},
        }}}});
        let names = |field: &str| names_at(&schema, &Field::read(field));
        assert_eq!(names("spec"), ["list", "map"]);
        for list in ["spec.list[0]", "spec.list"] {
            assert_eq!(names(list), ["image", "name"], "{list}");
        }
        assert_eq!(names("spec.map[a]"), ["x"]);
        assert_eq!(names("spec.none"), Vec::<String>::new());
    }
}
