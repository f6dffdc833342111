//! The manifests of `examples/`, by kind.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const FOLDER: &str = "examples";

/// A manifest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Example {
    /// Its name in the folder.
    pub(super) file: String,
    pub(super) text: String,
    /// First sentence of the comment at its begin.
    pub(super) what: String,
    /// `apiVersion`, then `kind`.
    pub(super) of: (String, String),
}

impl Example {
    fn read(file: String, text: String) -> Self {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap_or_default().trim().to_owned()
        };
        let of = (field("apiVersion:"), field("kind:"));
        Self {
            what: first_sentence(&text),
            file,
            of,
            text,
        }
    }
}

/// All of them, by name.
pub(super) fn examples(root: &Path) -> Result<Vec<Example>> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut examples = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        examples.push(Example::read(file.into_owned(), text));
    }
    examples.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(examples)
}

fn first_sentence(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix("# "));
    let comment = comment.collect::<Vec<_>>().join(" ");
    let sentence = comment
        .split_once(". ")
        .map_or(&*comment, |(first, _)| first);
    format!("{}.", sentence.trim_end_matches(['.', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_says_of_what_kind_it_is_and_what_it_shows() {
        let text = "# Each hour, in\n# order: all of it. More.\n#\n# Else.\n\
                    apiVersion: a/v1\nkind: B\nspec:\n  kind: C\n";
        let example = Example::read("b.yaml".to_owned(), text.to_owned());
        assert_eq!(example.of, ("a/v1".to_owned(), "B".to_owned()));
        assert_eq!(example.what, "Each hour, in order: all of it.");
    }
}
