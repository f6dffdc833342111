//! Each decision stands in the list of docs/README.md, once and by its number.

use std::collections::BTreeSet;
use std::fs;

use carillon_testbed::carillon::workspace;

#[test]
fn the_list_of_decisions_has_each_of_them() {
    let written: BTreeSet<String> = fs::read_dir(workspace().join("docs/decisions"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(written.len() > 30, "they were moved: {written:?}");
    let page = fs::read_to_string(workspace().join("docs/README.md")).unwrap();
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| [")?.split_once("](decisions/"));
    let rows: Vec<(&str, &str)> = rows
        .filter_map(|(number, rest)| Some((number, rest.split(')').next()?)))
        .collect();
    let listed: BTreeSet<String> = rows.iter().map(|(_, file)| (*file).to_owned()).collect();
    assert_eq!(
        written, listed,
        "docs/README.md lists other decisions than there are"
    );
    assert_eq!(rows.len(), listed.len(), "a decision is listed twice");
    for (number, file) in &rows {
        assert!(
            file.starts_with(&format!("{number}-")),
            "{number} is not {file}"
        );
    }
    assert!(rows.is_sorted(), "in the order of their numbers");
}
