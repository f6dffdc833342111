//! Every map, set and queue that the operator keeps is in docs/bounds.md, which says what bounds it.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const COLLECTIONS: [&str; 5] = [
    "HashMap<",
    "BTreeMap<",
    "HashSet<",
    "BTreeSet<",
    "VecDeque<",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Fields of structs that are collections, as `file.rs: field`.
fn fields(path: &Path, root: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let file = path.strip_prefix(root).unwrap().display().to_string();
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
        let starts = line.trim_start_matches("pub(super) ");
        let starts = starts
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub ");
        inside |= starts.starts_with("struct ") && line.ends_with('{');
        inside &= line != "}";
        let field = line
            .trim()
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ");
        let named = field
            .split_once(": ")
            .filter(|_| inside && !field.starts_with("//"));
        if let Some((name, type_)) = named
            && COLLECTIONS
                .iter()
                .any(|collection| type_.contains(collection))
        {
            found.push(format!("{file}: {name}"));
        }
    }
    found
}

#[test]
fn each_collection_that_is_kept_is_listed_with_its_bound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let kept: BTreeSet<String> = paths.iter().flat_map(|path| fields(path, &root)).collect();
    assert!(kept.len() > 20, "{kept:?}");

    let page = fs::read_to_string(root.join("../../../docs/bounds.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed: BTreeSet<String> = rows
        .filter_map(|row| row.split_once('`'))
        .map(|(field, _)| field.to_owned())
        .collect();
    let missing: Vec<_> = kept.difference(&listed).collect();
    assert!(missing.is_empty(), "not in docs/bounds.md: {missing:?}");
    let gone: Vec<_> = listed.difference(&kept).collect();
    assert!(
        gone.is_empty(),
        "in docs/bounds.md, but nowhere else: {gone:?}"
    );
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        assert_eq!(
            row.matches('|').count(),
            4,
            "field, what it holds, bound: {row}"
        );
    }
}
