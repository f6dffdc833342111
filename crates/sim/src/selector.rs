//! Label selectors.

use serde_json::Value;

use crate::status::Status;

/// A parsed `labelSelector`; the empty one selects everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Requirement {
    Is(String, String),
    IsNot(String, String),
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let parts = split(text).into_iter();
        let requirements = parts.map(|part| Requirement::parse(part).ok_or(part));
        requirements
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|part| Status::bad_request(format!("unable to parse requirement: {part:?}")))
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|requirement| requirement.holds(labels))
    }
}

impl Requirement {
    fn parse(part: &str) -> Option<Self> {
        let word = |text: &str| {
            let text = text.trim();
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            text.chars().all(plain).then(|| text.to_owned())
        };
        let key = |text: &str| word(text).filter(|key| !key.is_empty());
        if let Some((name, values)) = part.split_once('(') {
            let values = values.strip_suffix(')')?.split(',').map(word);
            let values = values.collect::<Option<Vec<_>>>()?;
            let (name, operator) = name.trim().rsplit_once(' ')?;
            return match operator {
                "in" => Some(Self::In(key(name)?, values)),
                "notin" => Some(Self::NotIn(key(name)?, values)),
                _ => None,
            };
        }
        if let Some((name, value)) = part.split_once("!=") {
            return Some(Self::IsNot(key(name)?, word(value)?));
        }
        if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            return Some(Self::Is(key(name)?, word(value)?));
        }
        match part.trim().strip_prefix('!') {
            Some(name) => Some(Self::Absent(key(name)?)),
            None => Some(Self::Exists(key(part)?)),
        }
    }

    fn holds(&self, labels: &Value) -> bool {
        let value = |key: &String| labels.get(key).and_then(Value::as_str);
        match self {
            Self::Is(key, wanted) => value(key) == Some(wanted),
            Self::IsNot(key, other) => value(key) != Some(other),
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
            Self::In(key, wanted) => value(key).is_some_and(|v| wanted.iter().any(|w| w == v)),
            Self::NotIn(key, others) => !value(key).is_some_and(|v| others.iter().any(|w| w == v)),
        }
    }
}

/// At the commas that are not between brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    if text.trim().is_empty() {
        parts.clear();
    }
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_selected_by_equality_existence_and_set() {
        let object = json!({"metadata": {"labels": {"a": "1", "x.io/b": "2"}}});
        for (text, selected) in [
            ("", true),
            ("a=1", true),
            ("a==1,x.io/b", true),
            ("a!=1", false),
            ("c!=1", true),
            ("!c", true),
            ("!a", false),
            ("c", false),
            ("a in (1, 3),!c", true),
            ("a notin (1,3)", false),
            ("c notin (1)", true),
        ] {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.matches(&object), selected, "{text}");
        }
        for text in ["=1", "a=b=c", "a in", "a of (1)", "a,", "a in (1"] {
            assert_eq!(Selector::parse(text).unwrap_err().code, 400, "{text}");
        }
    }
}
