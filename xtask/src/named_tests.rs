//! Pages that name a test for each of their rows, held to what they say: the tests exist.

use std::fs;
use std::path::Path;

use carillon_testbed::carillon::workspace;

/// A page of tables.
struct Page {
    path: &'static str,
    /// First cells that are there once each.
    ids: fn() -> Vec<String>,
    /// It names at least so many tests.
    tests: usize,
}

const PAGES: [Page; 5] = [
    Page {
        path: "docs/daemonset-upstream-tests.md",
        ids: || {
            let upstream = (1..=86).map(|number| number.to_string());
            let kruise = [1012, 1323, 1871].map(|issue| format!("kruise {issue}"));
            upstream.chain(kruise).collect()
        },
        tests: 80,
    },
    Page {
        path: "docs/defects.md",
        ids: || (1..=31).map(|number| format!("D{number}")).collect(),
        tests: 100,
    },
    Page {
        path: "docs/doctor.md",
        ids: || (1..=23).map(|number| number.to_string()).collect(),
        tests: 35,
    },
    Page {
        path: "docs/job-edge-cases.md",
        ids: || (1..=93).map(|number| number.to_string()).collect(),
        tests: 150,
    },
    Page {
        path: "docs/threat-model.md",
        ids: || (1..=28).map(|number| format!("T{number}")).collect(),
        tests: 40,
    },
];

/// What a row says in place of a test, followed by the reason.
const CANNOT_APPLY: &str = "cannot apply: ";

/// A line of a table: its first cell, and what it names by file.
struct Row {
    first: String,
    /// As `[file](path) `name``.
    tests: Vec<(String, String)>,
    /// As `scenario `name` of [file](path)`.
    scenarios: Vec<(String, String)>,
    cannot_apply: bool,
}

impl Page {
    fn rows(&self) -> Vec<Row> {
        let page = fs::read_to_string(workspace().join(self.path)).unwrap();
        let rows = page.lines().filter(|line| line.starts_with("| "));
        rows.map(Row::read)
            .filter(|row| !["#", "Situation"].contains(&row.first.as_str()))
            .collect()
    }
}

impl Row {
    fn read(line: &str) -> Self {
        let first = line.split('|').nth(1).unwrap_or_default();
        let test = |rest: &str| {
            let (path, rest) = rest.split_once(") ")?;
            let name = rest.strip_prefix('`')?.split('`').next()?;
            Some((path.to_owned(), name.to_owned()))
        };
        let scenario = |rest: &str| {
            let (name, rest) = rest.split_once("` of [")?;
            let path = rest.split_once("](../")?.1.split(')').next()?;
            Some((path.to_owned(), name.to_owned()))
        };
        Self {
            first: first.trim().to_owned(),
            tests: line.split("](../").skip(1).filter_map(test).collect(),
            scenarios: line
                .split("scenario `")
                .skip(1)
                .filter_map(scenario)
                .collect(),
            cannot_apply: line.contains(CANNOT_APPLY),
        }
    }
}

/// Whether the file has a test of this name.
fn has_test(path: &Path, name: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let signature = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| {
        let declared = line.strip_prefix("async ").unwrap_or(line);
        let attributes = lines[..at].iter().rev().take_while(|l| l.starts_with("#["));
        declared.starts_with(&signature)
            && attributes
                .map(|attribute| attribute.trim_start_matches("#["))
                .any(|attribute| {
                    attribute.starts_with("test]") || attribute.starts_with("tokio::test")
                })
    })
}

/// Whether the file makes a scenario of this name.
fn has_scenario(path: &Path, name: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.contains(&format!("\"{name}\""))
}

#[test]
fn every_test_that_a_page_names_exists() {
    for page in PAGES {
        let mut named = 0;
        for row in page.rows() {
            let place = format!("{}, {}", page.path, row.first);
            for (path, name) in &row.tests {
                let found = has_test(&workspace().join(path), name);
                assert!(found, "{place}: {path} has no test {name}");
                named += 1;
            }
            for (path, name) in &row.scenarios {
                let found = has_scenario(&workspace().join(path), name);
                assert!(found, "{place}: {path} has no scenario {name}");
            }
        }
        let (path, least) = (page.path, page.tests);
        assert!(named >= least, "only {named} tests were found in {path}");
    }
}

#[test]
fn every_number_is_listed_once_and_every_row_names_a_test_or_says_why_it_cannot() {
    for page in PAGES {
        let (rows, path) = (page.rows(), page.path);
        for id in (page.ids)() {
            let found = rows.iter().filter(|row| row.first == id).count();
            assert_eq!(found, 1, "{path}: {id}");
        }
        for row in &rows {
            let tested = !row.tests.is_empty() || row.cannot_apply;
            assert!(tested, "{path}: no test for {}", row.first);
        }
    }
}

#[test]
fn a_row_is_read_with_its_tests_and_its_scenarios() {
    let row = Row::read(
        "| 7 | a | [planner](../a/b.rs) `one`<br>[gate](../c.rs) `two`<br>\
         scenario `three-four` of [job_parity/x](../d/x.rs)<br>scenario `five` of [y](../y.rs) |",
    );
    let named = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(path, name)| ((*path).to_owned(), (*name).to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(row.first, "7");
    assert_eq!(row.tests, named(&[("a/b.rs", "one"), ("c.rs", "two")]));
    let scenarios = named(&[("d/x.rs", "three-four"), ("y.rs", "five")]);
    assert_eq!((row.scenarios, row.cannot_apply), (scenarios, false));
    assert!(Row::read("| 8 | a | cannot apply: there is none |").cannot_apply);
}
