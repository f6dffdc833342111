//! `docs/api/`: what can be written and read, from the CRDs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::examples::{Example, examples};
use super::field::{Field, fields};
use super::markdown::{escaped, wrapped};
use super::page::{HEADER, Kind, page};
use super::schema::text;

/// Where the pages go.
pub(super) const FOLDER: &str = "docs/api";

/// The constants with the labels, annotations and finalizers.
const NAMES: &str = include_str!("../../../crates/api/src/names.rs");

/// How their names begin, and what they are.
const KEYS: [(&str, &str); 3] = [
    ("ANNOTATION_", "Annotation"),
    ("FINALIZER_", "Finalizer"),
    ("LABEL_", "Label"),
];

/// The guide of each kind, from [`FOLDER`].
const GUIDES: [(&str, &str); 4] = [
    ("BroadcastJob", "../broadcastjob.md"),
    ("CronJob", "../cronjob.md"),
    ("DaemonSet", "../daemonset.md"),
    ("NodeResultSlice", "../broadcastjob.md#results-per-node"),
];

/// How the pages are to be read, after the table of kinds.
const HOW_TO_READ: &str = include_str!("how_to_read.md");

/// Each page of these CRDs, by its name in [`FOLDER`].
pub(super) fn pages(root: &Path, crds: &[Value]) -> Result<BTreeMap<String, String>> {
    let examples = examples(root)?;
    let mut pages = BTreeMap::from([("README.md".to_owned(), index(crds)?)]);
    for crd in crds {
        let name = kind(crd);
        let examples: Vec<Example> = (examples.iter())
            .filter(|example| example.of == (api_version(crd), name.to_owned()))
            .cloned()
            .collect();
        let page = page(&Kind {
            crd,
            schema: schema(crd),
            fields: &fields_of(crd, crds)?,
            examples: &examples,
            guide: guide(name)?,
        });
        pages.insert(file(crd), page);
    }
    Ok(pages)
}

fn fields_of(crd: &Value, crds: &[Value]) -> Result<Vec<Field>> {
    let broadcast_job = crds.iter().find(|crd| kind(crd) == "BroadcastJob");
    let broadcast_job = broadcast_job.context("there is no CRD of BroadcastJob")?;
    Ok(fields(kind(crd), schema(crd), schema(broadcast_job)))
}

fn kind(crd: &Value) -> &str {
    text(&crd["spec"]["names"]["kind"])
}

fn schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

fn api_version(crd: &Value) -> String {
    let spec = &crd["spec"];
    format!(
        "{}/{}",
        text(&spec["group"]),
        text(&spec["versions"][0]["name"])
    )
}

fn file(crd: &Value) -> String {
    format!("{}.md", text(&crd["spec"]["names"]["singular"]))
}

fn guide(kind: &str) -> Result<&'static str> {
    let guide = GUIDES.iter().find(|(of, _)| *of == kind);
    let guide =
        guide.with_context(|| format!("GUIDES of xtask names no guide of {kind}: add it"))?;
    Ok(guide.1)
}

/// The page that leads to the others.
fn index(crds: &[Value]) -> Result<String> {
    let mut page = format!("{HEADER}\n# The API\n\n");
    page += "Each field that can be written or read, made from the CRDs. The guides say what to do with them.\n\n";
    page += "| Kind | `kubectl get` | What it is | Guide |\n|---|---|---|---|\n";
    for crd in crds {
        let (kind, guide) = (kind(crd), guide(kind(crd))?);
        let short = text(&crd["spec"]["names"]["shortNames"][0]);
        let what = escaped(text(&schema(crd)["description"]));
        let _ = writeln!(
            page,
            "| [{kind}]({}) | `{short}` | {what} | [guide]({guide}) |",
            file(crd)
        );
    }
    page += HOW_TO_READ;
    page += "\n## Labels, annotations and finalizers\n";
    for (name, what) in names(NAMES) {
        let _ = write!(page, "\n### `{name}`\n\n{}", wrapped("", &escaped(&what)));
    }
    Ok(page)
}

/// The keys among the constants of a file, with their comments.
fn names(source: &str) -> Vec<(String, String)> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let mut comment = String::new();
    for line in source.lines() {
        if let Some(words) = line.strip_prefix("/// ") {
            comment = format!("{comment} {words}");
            continue;
        }
        let constant = line.strip_prefix("pub const ").and_then(|rest| {
            let (name, value) = rest.split_once(": &str = \"")?;
            Some((name, value.strip_suffix("\";")?))
        });
        let what = std::mem::take(&mut comment);
        if let Some((name, value)) = constant {
            values.push((format!("[`{name}`]"), format!("`{value}`")));
            let kind = KEYS.iter().find(|(prefix, _)| name.starts_with(prefix));
            if let Some((_, kind)) = kind {
                names.push((value.to_owned(), format!("{kind}. {}", what.trim())));
            }
        }
    }
    for (_, what) in &mut names {
        for (name, value) in &values {
            *what = what.replace(name, value);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::LazyLock;

    use carillon_testbed::carillon::workspace;

    use super::super::foreign::PLACES;
    use super::super::schema::each;
    use super::*;

    /// Each kind with its CRD and fields.
    static KINDS: LazyLock<Vec<(String, Value, Vec<Field>)>> = LazyLock::new(|| {
        let crds = crds();
        let fields = |crd: &Value| fields_of(crd, &crds).unwrap();
        let kinds = crds
            .iter()
            .map(|crd| (kind(crd).to_owned(), crd.clone(), fields(crd)));
        kinds.collect()
    });

    fn crds() -> Vec<Value> {
        let crds = carillon_api::crds();
        crds.iter()
            .map(|crd| serde_json::to_value(crd).unwrap())
            .collect()
    }

    fn pages() -> BTreeMap<String, String> {
        let crds: Vec<Value> = KINDS.iter().map(|(_, crd, _)| crd.clone()).collect();
        super::pages(&workspace(), &crds).unwrap()
    }

    /// The fields of a CRD that are not inside of a type of another one.
    fn paths(kind: &str, crd: &Value) -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        each("", schema(crd), &mut |path, _| {
            let is_foreign = PLACES.iter().any(|(of, at, _)| {
                *of == kind
                    && path
                        .strip_prefix(at)
                        .is_some_and(|rest| rest.starts_with(['.', '[', '{']))
            });
            if !is_foreign && !path.is_empty() && !path.ends_with([']', '}']) {
                paths.insert(path.to_owned());
            }
        });
        paths
    }

    #[test]
    fn each_field_of_each_crd_has_a_place_on_the_page_of_its_kind() {
        let pages = pages();
        for (kind, crd, _) in &*KINDS {
            let page = &pages[&file(crd)];
            let paths = paths(kind, crd);
            assert!(paths.len() >= 15, "{kind}: {paths:?}");
            for path in paths {
                let places = [
                    format!("\n## `{path}`\n"),
                    format!("\n### `{path}`\n"),
                    format!("\n| `{path}` | "),
                    format!("\n- `{path}` "),
                ];
                let found: usize = places.iter().map(|place| page.matches(place).count()).sum();
                assert_eq!(found, 1, "{kind}: {path}");
            }
        }
    }

    #[test]
    fn a_template_of_broadcast_jobs_has_the_fields_of_a_broadcast_job_and_says_which_it_lacks() {
        let (_, broadcast_job, _) = &KINDS[0];
        let (kind, cron_job, fields) = &KINDS[1];
        assert_eq!(kind, "CronJob");
        let template = fields
            .iter()
            .find(|field| field.path == "spec.broadcastJobTemplate.spec");
        assert_eq!(template.unwrap().lacks, ["retryOf"]);
        let at = "/properties/spec/properties/broadcastJobTemplate/properties/spec";
        let (mut theirs, mut ours) = (BTreeSet::new(), BTreeSet::new());
        each("", schema(cron_job).pointer(at).unwrap(), &mut |path, _| {
            theirs.insert(path.to_owned());
        });
        each(
            "",
            &schema(broadcast_job)["properties"]["spec"],
            &mut |path, _| {
                ours.insert(path.to_owned());
            },
        );
        ours.retain(|path| !path.starts_with("retryOf"));
        assert_eq!(theirs, ours);
    }

    #[test]
    fn each_field_is_described_and_each_optional_one_says_its_default() {
        for (kind, _, fields) in &*KINDS {
            for field in fields {
                let Field {
                    path, description, ..
                } = &field;
                assert!(!description.is_empty(), "{kind}: {path}");
                let is_whole = ["object", "list", "set", "map", "["];
                let is_whole = is_whole.iter().any(|word| field.type_.contains(word));
                let is_set = field.required || field.refused || field.default.is_some();
                assert!(
                    !path.starts_with("spec.") || is_whole || is_set,
                    "{kind}: end the doc comment of {path} with `Default: ….`"
                );
            }
        }
    }

    #[test]
    fn descriptions_agree_with_types_and_rules() {
        for (kind, crd, fields) in &*KINDS {
            let mut descriptions = BTreeMap::new();
            each("", schema(crd), &mut |path, schema| {
                descriptions.insert(path.to_owned(), text(&schema["description"]).to_owned());
            });
            for Field {
                path,
                type_,
                immutable,
                ..
            } in fields
            {
                let said = &descriptions[path];
                let is_part = |whole: &Field| {
                    whole.immutable
                        && path
                            .strip_prefix(&whole.path)
                            .is_some_and(|rest| rest.starts_with('.'))
                };
                if !fields.iter().any(is_part) {
                    let says_so = said.contains("Immutable.");
                    assert_eq!(says_so, *immutable, "{kind}: {path}: {said}");
                }
                if type_ == "integer or percentage" {
                    assert!(said.contains("percentage"), "{kind}: {path}: {said}");
                }
            }
        }
    }

    #[test]
    fn the_types_of_others_are_where_they_are_looked_for() {
        for (kind, path, _) in &PLACES {
            let mut all = KINDS
                .iter()
                .filter(|(of, _, _)| of == kind)
                .flat_map(|(_, _, fields)| fields);
            assert!(all.any(|field| field.path == *path), "{kind} has no {path}");
        }
    }

    #[test]
    fn what_people_write_is_shown_as_yaml_and_by_an_example() {
        let pages = pages();
        for (kind, crd, _) in &*KINDS {
            let blocks: Vec<&str> = pages[&file(crd)].split("```").skip(1).step_by(2).collect();
            let has_spec = schema(crd)["properties"].get("spec").is_some();
            assert_eq!(blocks.len(), if has_spec { 2 } else { 0 }, "{kind}");
            for block in blocks {
                let yaml: Value =
                    serde_saphyr::from_str(block.strip_prefix("yaml\n").unwrap()).unwrap();
                assert_eq!(
                    (&yaml["kind"], yaml["spec"].is_object()),
                    (&Value::from(kind.as_str()), true)
                );
            }
        }
    }

    #[test]
    fn each_key_among_the_names_is_listed_with_what_it_means() {
        let keys = KEYS.map(|(prefix, _)| NAMES.matches(&format!("pub const {prefix}")).count());
        let names = names(NAMES);
        assert_eq!(names.len(), keys.iter().sum::<usize>());
        for (name, what) in &names {
            let (_, meaning) = what.split_once(". ").unwrap();
            assert!(meaning.len() > 10 && !what.contains("[`"), "{name}: {what}");
        }
        let source = "/// That\n/// of `a`: [`ON`].\npub const LABEL_A: &str = \"a/b\";\n/// Else.\n\
                      pub const ON: &str = \"on\";\n";
        let found = super::names(source);
        assert_eq!(
            found,
            [("a/b".to_owned(), "Label. That of `a`: `on`.".to_owned())]
        );
    }
}
