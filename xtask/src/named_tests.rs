//! docs/defects.md, held to what it says: every test it names exists.

use std::fs;
use std::path::Path;

use carillon_testbed::carillon::workspace;

const PAGE: &str = "docs/defects.md";

/// A line of a table: its first cell, and the tests it names as `[file](path) `name``.
struct Row {
    first: String,
    tests: Vec<(String, String)>,
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(workspace().join(PAGE)).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    rows.map(|line| Row {
        first: line.split('|').nth(1).unwrap_or_default().trim().to_owned(),
        tests: tests_of(line),
    })
    .filter(|row| !["#", "Situation"].contains(&row.first.as_str()))
    .collect()
}

fn tests_of(line: &str) -> Vec<(String, String)> {
    let links = line.split("](../").skip(1);
    links
        .filter_map(|rest| {
            let (path, rest) = rest.split_once(") ")?;
            let name = rest.strip_prefix('`')?.split('`').next()?;
            Some((path.to_owned(), name.to_owned()))
        })
        .collect()
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

#[test]
fn every_test_that_the_list_of_defects_names_exists() {
    let mut named = 0;
    for row in rows() {
        for (path, name) in &row.tests {
            assert!(
                has_test(&workspace().join(path), name),
                "{PAGE}, {}: {path} has no test {name}",
                row.first
            );
            named += 1;
        }
    }
    assert!(named > 100, "only {named} tests were found in {PAGE}");
}

#[test]
fn every_defect_is_listed_once_and_every_row_names_a_test() {
    let rows = rows();
    for number in 1..=31 {
        let id = format!("D{number}");
        let found = rows.iter().filter(|row| row.first == id).count();
        assert_eq!(found, 1, "{PAGE}: {id}");
    }
    for row in &rows {
        assert!(!row.tests.is_empty(), "{PAGE}: no test for {}", row.first);
    }
}
