//! What the schema of a kind says of each of its fields.

use serde_json::{Value, json};

use super::foreign::{self, Foreign};
use super::schema::{INSIDE, Rule, join, properties, requires, rules, text, yaml};

/// A field as a page shows it.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Field {
    /// Its way from the object, lists marked: `spec.podFailurePolicy.rules[].action`.
    pub(super) path: String,
    /// What is written there, and its unit.
    pub(super) type_: String,
    /// As YAML, or in words.
    pub(super) default: Option<String>,
    pub(super) required: bool,
    /// It, or what it is a part of.
    pub(super) immutable: bool,
    /// In the schema only to be refused.
    pub(super) refused: bool,
    /// In words.
    pub(super) bounds: Vec<String>,
    /// Regular expressions, each after what it is of: the field, or `each` of its items or values.
    pub(super) patterns: Vec<(&'static str, String)>,
    /// Without what the other fields say.
    pub(super) description: String,
    /// Fields that it has in another kind, and lacks here.
    pub(super) lacks: Vec<String>,
    /// What the API server says when it refuses a value.
    pub(super) rules: Vec<String>,
}

/// All fields of an object of `kind`, in the order of the schema. What is another one's type ends there.
pub(super) fn fields(kind: &str, schema: &Value, broadcast_job: &Value) -> Vec<Field> {
    let mut walk = Walk {
        kind,
        rules: rules(schema),
        broadcast_job,
        fields: Vec::new(),
    };
    walk.fields_of("", schema, false);
    walk.fields
}

struct Walk<'a> {
    kind: &'a str,
    rules: Vec<Rule>,
    broadcast_job: &'a Value,
    fields: Vec<Field>,
}

impl Walk<'_> {
    fn fields_of(&mut self, path: &str, schema: &Value, immutable: bool) {
        for (name, property) in properties(schema) {
            let required = requires(schema, name);
            self.field(&join(path, name), property, required, immutable);
        }
    }

    fn field(&mut self, path: &str, schema: &Value, required: bool, immutable: bool) {
        let foreign = foreign::at(self.kind, path);
        let is_immutable = |rule: &Rule| rule.path == path && rule.is_immutability();
        let immutable = immutable || self.rules.iter().any(is_immutable);
        let mut description = text(&schema["description"]).replace("\n\n", " ");
        take_sentence(&mut description, "Immutable");
        let default = take_sentence(&mut description, "Default: ");
        let mut field = Field {
            path: path.to_owned(),
            type_: type_of(path, schema, foreign),
            default: default_of(schema).or(default),
            required,
            immutable,
            refused: self.rules.iter().any(|rule| rule.refuses(path)),
            description,
            ..Field::default()
        };
        if let Some(foreign) = foreign {
            field.rules = self.rules_inside(path, foreign);
            if foreign.is_broadcast_job {
                field.lacks = lacks(&self.broadcast_job["properties"]["spec"], schema);
            }
            self.fields.push(field);
            return;
        }
        field.rules = self.rules_of(path);
        bounds("", schema, &mut field);
        self.fields.push(field);
        self.fields_of(path, schema, immutable);
        for (key, mark) in INSIDE {
            self.fields_of(&format!("{path}{mark}"), &schema[key], immutable);
        }
    }

    /// What is said of a field, and of each of its items.
    fn rules_of(&self, path: &str) -> Vec<String> {
        let of_items = format!("{path}[]");
        let said = self.rules.iter().filter_map(|rule| {
            let message = &rule.message;
            match &rule.path {
                of if of == path => Some(message.clone()),
                of if *of == of_items => Some(format!("each {message}")),
                _ => None,
            }
        });
        once(said)
    }

    /// What is said of a field and of all inside, with where.
    fn rules_inside(&self, path: &str, foreign: &Foreign) -> Vec<String> {
        let known = if foreign.is_broadcast_job {
            rules(self.broadcast_job)
        } else {
            Vec::new()
        };
        let is_known = |rule: &Rule| {
            let spec = |text: &str| text.replace(path, "spec");
            known.iter().any(|known| {
                *known.message == spec(&rule.message) && known.path == spec(&rule.path)
            })
        };
        let said = self.rules.iter().filter_map(|rule| {
            let inside = rule.path.strip_prefix(path)?;
            let message = &rule.message;
            match inside {
                _ if is_known(rule) => None,
                "" => Some(message.clone()),
                _ if inside.starts_with(['.', '[']) => Some(format!("`{}` {message}", rule.path)),
                _ => None,
            }
        });
        once(said)
    }
}

/// The texts, each once, in their order.
fn once(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut once = Vec::new();
    for text in texts {
        if !once.contains(&text) {
            once.push(text);
        }
    }
    once
}

/// The fields of `whole` that `part` has not.
fn lacks(whole: &Value, part: &Value) -> Vec<String> {
    let mut lacking = Vec::new();
    for (name, property) in properties(whole) {
        match part["properties"].get(name) {
            None => lacking.push(name.clone()),
            Some(other) => {
                let inside = lacks(property, other).into_iter();
                lacking.extend(inside.map(|inside| join(name, &inside)));
            }
        }
    }
    lacking
}

/// What is written there.
fn type_of(path: &str, schema: &Value, foreign: Option<&Foreign>) -> String {
    if schema["type"] == "array" {
        let item = match foreign {
            Some(foreign) => foreign.link.to_owned(),
            None => format!("{}s", text(&schema["items"]["type"])),
        };
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        let keys: Vec<_> = keys.into_iter().flatten().map(text).collect();
        return match text(&schema["x-kubernetes-list-type"]) {
            "map" => format!("list of {item}, by `{}`", keys.join("`, `")),
            "set" => format!("set of {item}"),
            _ => format!("atomic list of {item}"),
        };
    }
    if let Some(foreign) = foreign {
        return foreign.link.to_owned();
    }
    if schema["additionalProperties"].is_object() {
        return format!("map of {}s", text(&schema["additionalProperties"]["type"]));
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or percentage".to_owned();
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words
            .iter()
            .map(|word| format!("`{}`", yaml(word)))
            .collect();
        return match words.as_slice() {
            [words @ .., last] if !words.is_empty() => format!("{} or {last}", words.join(", ")),
            words => words.concat(),
        };
    }
    match (text(&schema["type"]), text(&schema["format"])) {
        (_, "date-time") => "time, RFC 3339".to_owned(),
        ("integer", _) if is_seconds(path) => "integer, seconds".to_owned(),
        (of, _) => of.to_owned(),
    }
}

/// Whether its name says so.
fn is_seconds(path: &str) -> bool {
    let name = path.rsplit('.').next();
    name.is_some_and(|name| name.contains("Seconds"))
}

/// The default, unless it only says that there are defaults inside.
fn default_of(schema: &Value) -> Option<String> {
    let default = schema.get("default")?;
    (*default != json!({})).then(|| format!("`{}`", yaml(default)))
}

/// Adds what the schema says of size and form. `of`: whose, of the items or values of the field.
fn bounds(of: &'static str, schema: &Value, field: &mut Field) {
    for (least, most, unit) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " keys"),
    ] {
        let range = match (schema[least].as_i64(), schema[most].as_i64()) {
            (None, None) => continue,
            (Some(least), Some(most)) if least == most => format!("{most}{unit}"),
            (Some(least), Some(most)) => format!("{least} to {most}{unit}"),
            (Some(least), None) => format!("at least {least}{unit}"),
            (None, Some(most)) => format!("at most {most}{unit}"),
        };
        field.bounds.push(format!("{of}{range}"));
    }
    let pattern = schema["pattern"].as_str();
    field
        .patterns
        .extend(pattern.map(|pattern| (of, pattern.to_owned())));
    for (key, _) in INSIDE {
        // Of an item that is an object each field says it.
        if schema[key].is_object() && schema[key].get("properties").is_none() {
            bounds("each ", &schema[key], field);
        }
    }
}

/// Takes the sentence that begins so from the text, and gives the rest of it without its dot.
fn take_sentence(text: &mut String, begin: &str) -> Option<String> {
    let (at, _) = text
        .match_indices(begin)
        .find(|(at, _)| *at == 0 || text[..*at].ends_with(". "))?;
    let (before, sentence) = text.split_at(at);
    let sentence = &sentence[begin.len()..];
    let (taken, after) = sentence.split_once(". ").unwrap_or((sentence, ""));
    let taken = taken.trim_end_matches('.').to_owned();
    *text = format!("{before}{after}");
    text.truncate(text.trim_end().len());
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(schema: &Value) -> Field {
        let schema = json!({"properties": {"waitSeconds": schema}});
        let mut fields = fields("Kind", &schema, &json!({}));
        assert_eq!(fields.len(), 1);
        fields.remove(0)
    }

    #[test]
    fn a_type_is_told_in_words() {
        for (schema, wanted) in [
            (json!({"type": "integer"}), "integer, seconds"),
            (json!({"type": "boolean"}), "boolean"),
            (
                json!({"type": "string", "format": "date-time"}),
                "time, RFC 3339",
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                "integer or percentage",
            ),
            (json!({"type": "string", "enum": ["A"]}), "`A`"),
            (
                json!({"type": "string", "enum": ["A", "True", ""]}),
                "`A`, `\"True\"` or `\"\"`",
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                "map of strings",
            ),
            (
                json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"}),
                "set of integers",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}),
                "atomic list of strings",
            ),
            (
                json!({
                    "type": "array",
                    "items": {"type": "object"},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                }),
                "list of objects, by `name`",
            ),
        ] {
            assert_eq!(only(&schema).type_, wanted);
        }
    }

    #[test]
    fn default_and_immutability_leave_the_description() {
        let description = "How long. Immutable. Default: for ever, as before. Not longer.";
        let field = only(&json!({"type": "integer", "description": description}));
        assert_eq!(field.description, "How long. Not longer.");
        assert_eq!(field.default.as_deref(), Some("for ever, as before"));
        // What a rule does not hold is not said.
        assert!(!field.immutable);

        let field = only(&json!({"type": "integer", "description": "Default: 1.", "default": 2}));
        assert_eq!(
            (field.description.as_str(), field.default.as_deref()),
            ("", Some("`2`"))
        );
        let inside = only(&json!({"type": "object", "default": {}}));
        assert_eq!(inside.default, None);
    }

    #[test]
    fn sizes_and_forms_are_told_of_the_field_and_of_each_item() {
        let field = only(&json!({
            "type": "array", "minItems": 1, "maxItems": 3,
            "items": {"type": "string", "minLength": 2, "maxLength": 2, "pattern": "^a"},
        }));
        assert_eq!(field.bounds, ["1 to 3 items", "each 2 characters"]);
        assert_eq!(field.patterns, [("each ", "^a".to_owned())]);
        assert_eq!(only(&json!({"minimum": 0})).bounds, ["at least 0"]);
        assert_eq!(
            only(&json!({"maxProperties": 9})).bounds,
            ["at most 9 keys"]
        );
    }

    fn rule(rule: &str, field: &str, message: &str) -> Value {
        json!({"rule": rule, "fieldPath": field, "message": message})
    }

    #[test]
    fn a_rule_stands_at_the_field_that_it_names() {
        let item = json!({"message": "must be whole", "rule": "self.x"});
        let schema = json!({
            "x-kubernetes-validations": [
                rule("self.a == oldSelf.a", ".a", "is immutable: make another one"),
                rule("!has(self.b)", ".b", "is of another kind"),
            ],
            "required": ["a"],
            "properties": {
                "a": {"type": "array", "items": {
                    "type": "object", "properties": {"c": {"type": "string"}},
                    "x-kubernetes-validations": [item.clone(), item],
                }},
                "b": {"type": "string"},
            },
        });
        let [a, c, b]: [Field; 3] = fields("Kind", &schema, &json!({})).try_into().unwrap();
        assert_eq!(
            a.rules,
            ["is immutable: make another one", "each must be whole"]
        );
        assert!(a.immutable && a.required && !a.refused);
        assert_eq!((c.path.as_str(), c.immutable), ("a[].c", true));
        assert!(b.refused && !b.immutable && !b.required);
    }

    #[test]
    fn of_a_type_of_another_one_only_our_rules_are_told() {
        let described = json!({"properties": {"spec": {
            "properties": {"a": {}, "b": {"properties": {"c": {}}}},
            "x-kubernetes-validations": [rule("1", ".a", "set spec.a")],
        }}});
        let schema = json!({"properties": {"spec": {"properties": {"broadcastJobTemplate": {"properties": {
            "spec": {
                "properties": {"a": {}, "b": {"properties": {}}},
                "x-kubernetes-validations": [
                    rule("1", ".a", "set spec.broadcastJobTemplate.spec.a"),
                    rule("2", ".a", "must end"),
                ],
            },
        }}}}}});
        let fields = fields("CronJob", &schema, &described);
        let spec = fields.last().unwrap();
        assert_eq!(spec.path, "spec.broadcastJobTemplate.spec");
        assert_eq!(spec.type_, "[spec of a BroadcastJob](broadcastjob.md#spec)");
        assert_eq!(spec.rules, ["`spec.broadcastJobTemplate.spec.a` must end"]);
        assert_eq!(spec.lacks, ["b.c"]);
    }
}
