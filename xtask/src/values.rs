//! `cargo xtask values`: what the comments of the chart's values say goes into the table of its README and into the
//! descriptions of its schema.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::generated_part::with_part;

const VALUES: &str = "charts/carillon/values.yaml";
const SCHEMA: &str = "charts/carillon/values.schema.json";
const PAGE: &str = "charts/carillon/README.md";
const BEGIN: &str = "<!-- values -->\n";
const END: &str = "<!-- /values -->\n";

/// A default that is longer stands in the file only.
const LONGEST_DEFAULT: usize = 40;

/// Flags of `cargo xtask values`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if table or descriptions are not what would be written.
    #[arg(long)]
    check: bool,
}

/// A value with a comment that begins with `--`.
#[derive(Debug, Eq, PartialEq)]
struct Described {
    /// Of its key the parts.
    key: Vec<String>,
    what: String,
}

/// Writes table and descriptions, or with `--check` compares them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| file.to_owned());
    let text = read(VALUES)?;
    let values: Value = serde_saphyr::from_str(&text).context(VALUES)?;
    let described = described(&text)?;
    let (page, schema) = (read(PAGE)?, read(SCHEMA)?);
    let wanted = [
        (
            PAGE,
            with_part(&page, (BEGIN, END), &table(&described, &values)?).context(PAGE)?,
            page,
        ),
        (SCHEMA, with_descriptions(&schema, &described)?, schema),
    ];
    let stale = wanted.iter().filter(|(_, wanted, found)| wanted != found);
    for (file, wanted, _) in stale {
        if args.check {
            bail!("{file} is stale, run `cargo xtask values`");
        }
        fs::write(root.join(file), wanted).with_context(|| format!("write {file}"))?;
        println!("updated {file}");
    }
    Ok(())
}

/// The values that a comment describes, in order. Maps are written in block style, two blanks a level.
fn described(text: &str) -> Result<Vec<Described>> {
    let mut described = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut comment: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(words) = trimmed.strip_prefix("# -- ") {
            comment = Some(words.trim_end().to_owned());
        } else if let Some(words) = trimmed.strip_prefix("# ") {
            if let Some(comment) = &mut comment {
                comment.push(' ');
                comment.push_str(words.trim_end());
            }
        } else if let Some((key, _)) = key_of(trimmed) {
            path.truncate((line.len() - trimmed.len()) / 2);
            path.push(key.to_owned());
            described.extend(comment.take().map(|what| Described {
                key: path.clone(),
                what,
            }));
        } else if comment.is_some() {
            bail!("{VALUES}: the comment before {line:?} describes no value: put it above a key");
        }
    }
    Ok(described)
}

fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(char::is_alphanumeric);
    (is_key && (rest.is_empty() || rest.starts_with(' '))).then_some((key, rest))
}

fn table(described: &[Described], values: &Value) -> Result<String> {
    let row = |Described { key, what }: &Described| {
        let default = values.pointer(&format!("/{}", key.join("/")));
        let key = key.join(".");
        let default = shown(default.with_context(|| format!("{VALUES} has no {key}"))?);
        let default = if default.len() > LONGEST_DEFAULT {
            "see values.yaml".to_owned()
        } else {
            format!("`{default}`")
        };
        Ok(format!("| `{key}` | {default} | {what} |\n"))
    };
    let rows: Result<Vec<String>> = described.iter().map(row).collect();
    let head = "| Key | Default | What it does |\n|---|---|---|\n";
    Ok(head.to_owned() + &rows?.concat())
}

/// JSON with a blank after each comma and colon.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{key:?}: {}", shown(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// The schema with other descriptions. It is written with a field a line, two blanks a level.
fn with_descriptions(schema: &str, described: &[Described]) -> Result<String> {
    let mut path: Vec<&str> = Vec::new();
    let mut left: Vec<&Described> = described.iter().collect();
    let mut wanted = String::new();
    for line in schema.lines() {
        let trimmed = line.trim_start();
        let level = (line.len() - trimmed.len()) / 2;
        let field = trimmed
            .strip_prefix('"')
            .and_then(|rest| rest.split_once("\": "));
        let mut text = line.to_owned();
        if let Some((field, value)) = field {
            path.truncate(level.saturating_sub(1));
            let parents = path.iter().filter(|part| **part != "properties");
            let here = |one: &&Described| one.key.iter().eq(parents.clone());
            if field == "description"
                && let Some(at) = left.iter().position(here)
            {
                let what = Value::from(&*left.remove(at).what);
                let comma = if value.ends_with(',') { "," } else { "" };
                text = format!("{}\"description\": {what}{comma}", "  ".repeat(level));
            }
            path.push(field);
        }
        wanted += &text;
        wanted.push('\n');
    }
    if let Some(Described { key, .. }) = left.first() {
        bail!(
            "{SCHEMA} has no description of {}: add one, whatever it says",
            key.join(".")
        );
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_and_the_schema_of_the_chart_say_what_its_values_say() {
        run(&Args { check: true }).unwrap();
    }

    #[test]
    fn a_comment_describes_the_key_below_it() {
        let text =
            "# Of the file.\n\na:\n  # -- One\n  # thing.\n  b: 1\n  c: [2]\n# -- Two.\nd: {}\n";
        let described = described(text).unwrap();
        let of = |key: &[&str], what: &str| Described {
            key: key.iter().map(|part| (*part).to_owned()).collect(),
            what: what.to_owned(),
        };
        assert_eq!(
            described,
            [of(&["a", "b"], "One thing."), of(&["d"], "Two.")]
        );
        let values = serde_json::json!({"a": {"b": 1, "c": [2]}, "d": {}});
        let table = table(&described, &values).unwrap();
        assert!(table.ends_with("| `a.b` | `1` | One thing. |\n| `d` | `{}` | Two. |\n"));
        let schema = |b: &str, d: &str| {
            let field = |what: &str| serde_json::json!({"description": what});
            let a = serde_json::json!({"properties": {"b": field(b)}});
            let all = serde_json::json!({"properties": {"a": a, "d": field(d)}});
            serde_json::to_string_pretty(&all).unwrap() + "\n"
        };
        let new = with_descriptions(&schema("same", "same"), &described).unwrap();
        assert_eq!(new, schema("One thing.", "Two."));
    }
}
