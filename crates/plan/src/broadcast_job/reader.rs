//! A spec is read field by field; what cannot be used becomes a problem.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::Value;

/// Label values hold this many characters.
const MAX_NAME: usize = 63;

/// A spec, and what of it cannot be used.
pub(super) struct Reader<'a> {
    spec: &'a Value,
    pub(super) problems: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn of(spec: &'a Value) -> Self {
        Self {
            spec,
            problems: Vec::new(),
        }
    }

    /// The field at a path such as `failurePolicy.type`, unless it is null.
    pub(super) fn field(&self, path: &str) -> Option<&'a Value> {
        let mut keys = path.split('.');
        let found = keys.try_fold(self.spec, |of, key| of.get(key))?;
        Some(found).filter(|found| !found.is_null())
    }

    /// Notes what is wrong with a field, and what to write.
    pub(super) fn problem(&mut self, path: &str, what: impl Display) {
        self.problems.push(format!("spec.{path}: {what}"));
    }

    /// A field, if it is there; `instead` of one that `read` refuses.
    pub(super) fn value<T>(
        &mut self,
        path: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
        instead: T,
    ) -> Option<T> {
        Some(read(self.field(path)?).unwrap_or_else(|problem| {
            self.problem(path, problem);
            instead
        }))
    }

    /// One of a few words; the first is the default.
    pub(super) fn word<T: Copy>(&mut self, path: &str, choices: &[(&str, T)]) -> T {
        let (_, default) = choices[0];
        let read = |found: &Value| {
            let mut all = choices.iter();
            let chosen = all.find(|(word, _)| found.as_str() == Some(word));
            chosen.map(|(_, value)| *value).ok_or_else(|| {
                let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                format!("found {found}; write one of {}", words.join(", "))
            })
        };
        self.value(path, read, default).unwrap_or(default)
    }

    /// A number from 0 up.
    pub(super) fn count(&mut self, path: &str) -> Option<i64> {
        let read = |value: &Value| {
            let found = value.as_i64().filter(|n| *n >= 0).map(Some);
            found.ok_or_else(|| format!("must be a number from 0 up, found {value}"))
        };
        self.value(path, read, None).flatten()
    }

    pub(super) fn check_name(&mut self, name: &str) {
        let length = name.len();
        if length > MAX_NAME {
            self.problems.push(format!(
                "metadata.name: has {length} characters; pods carry it as a label of at most {MAX_NAME}, create the job again under a shorter name"
            ));
        }
    }

    pub(super) fn check_template(&mut self) {
        let path = "template.spec.containers";
        let containers = self.field(path).and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            self.problem(path, "missing; write the containers to run");
        }
        let path = "template.spec.nodeName";
        let node = self.field(path).and_then(Value::as_str);
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            self.problem(
                path,
                format_args!(
                    "found {node:?}; one pod runs on every node, use nodeSelector to choose some"
                ),
            );
        }
    }

    /// Whether containers that fail are restarted, and how often; `None`: without limit.
    pub(super) fn restarts(&mut self) -> (bool, Option<u32>) {
        let limit = self.count("failurePolicy.restartLimit");
        let path = "template.spec.restartPolicy";
        match self.field(path).and_then(Value::as_str).unwrap_or_default() {
            "Never" => (false, None),
            "OnFailure" => (
                true,
                limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
            ),
            found => {
                self.problem(
                    path,
                    format_args!("found {found:?}; write OnFailure or Never"),
                );
                (false, None)
            }
        }
    }

    /// An empty list, or one that cannot be read, stands for no node: rather none than all.
    pub(super) fn node_names(&mut self) -> Option<BTreeSet<Box<str>>> {
        let read = |stored: &Value| {
            let names = stored.as_array().and_then(|names| {
                let names = names.iter().map(|name| Some(name.as_str()?.into()));
                names.collect::<Option<BTreeSet<Box<str>>>>()
            });
            let names = names.filter(|names| !names.is_empty());
            names.ok_or_else(|| {
                "must be a list of node names; create the job again with one, or without the field for all nodes".to_owned()
            })
        };
        self.value("nodeNames", read, BTreeSet::new())
    }
}
