//! The layout of the repository, kept by tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use carillon_testbed::carillon::workspace;

use crate::metadata;

/// Lines of code a Rust file may have, blank lines, comments and unit tests at its end not counted.
const MAX_LINES: usize = 700;
/// Characters that a line of prose may have. Tables and what is typed or printed are as wide as they are.
const MAX_COLUMNS: usize = 120;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 5] = ["common", "handler", "helper", "manager", "util"];

/// Which member of the workspace may use which, tests aside.
const EDGES: [(&str, &[&str]); 17] = [
    ("carillon-api", &[]),
    ("carillon-plan", &["carillon-api"]),
    ("carillon-operator", &["carillon-api", "carillon-plan"]),
    (
        "carillon-cli",
        &[
            "carillon-api",
            "carillon-dashboard",
            "carillon-plan",
            "carillon-simulate",
        ],
    ),
    ("carillon-dashboard", &["carillon-api", "carillon-plan"]),
    // The oracle judges the others: it shares no code with them.
    ("carillon-oracle", &[]),
    ("carillon-sim", &["carillon-oracle"]),
    (
        "carillon-simulate",
        &[
            "carillon-api",
            "carillon-operator",
            "carillon-plan",
            "carillon-sim",
        ],
    ),
    (
        "carillon-proof",
        &[
            "carillon-api",
            "carillon-operator",
            "carillon-oracle",
            "carillon-plan",
            "carillon-sim",
        ],
    ),
    ("carillon-fuzz", &[]),
    ("carillon-image", &[]),
    ("carillon-nodes", &["carillon-image", "carillon-testbed"]),
    ("carillon-release", &["carillon-image", "carillon-testbed"]),
    ("carillon-testbed", &[]),
    (
        "carillon-tests",
        &["carillon-api", "carillon-oracle", "carillon-testbed"],
    ),
    (
        "xtask",
        &["carillon-api", "carillon-nodes", "carillon-testbed"],
    ),
    ("xtask-launch", &[]),
];

/// Crates that `carillon-plan` must not see: it is a pure function of a snapshot and a time.
const IMPURE: [&str; 6] = ["axum", "fastrand", "kube", "reqwest", "tokio", "tracing"];

#[test]
fn crates_depend_on_each_other_only_as_allowed() {
    let packages = metadata::packages().unwrap();
    let names: Vec<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    for package in &packages {
        let name = &package.name;
        let allowed = EDGES
            .iter()
            .find(|(from, _)| from == name)
            .map(|(_, to)| *to);
        let allowed = allowed.unwrap_or_else(|| panic!("say in EDGES what {name} may use"));
        for dependency in package.dependencies.iter().filter(|d| d.kind.is_none()) {
            let to = dependency.name.as_str();
            assert!(
                !names.contains(&to) || allowed.contains(&to),
                "{name} must not depend on {to}"
            );
        }
    }
}

#[test]
fn plan_is_pure() {
    let packages = metadata::packages().unwrap();
    let plan = packages
        .iter()
        .find(|package| package.name == "carillon-plan")
        .unwrap();
    for dependency in plan.dependencies.iter().filter(|d| d.kind.is_none()) {
        assert!(
            !IMPURE.contains(&dependency.name.as_str()),
            "carillon-plan must not depend on {}",
            dependency.name
        );
    }
}

#[test]
fn no_rust_file_is_too_long_to_read() {
    let long: Vec<String> = texts()
        .filter(|(path, _)| Path::new(path).extension().is_some_and(|end| end == "rs"))
        .map(|(path, text)| (path, lines_of_code(&text)))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(path, lines)| format!("{path}: {lines}"))
        .collect();
    assert!(
        long.is_empty(),
        "more than {MAX_LINES} lines of code: {long:#?}"
    );
}

#[test]
fn lines_of_prose_fit_the_screen() {
    for (path, text) in
        texts().filter(|(path, _)| Path::new(path).extension().is_some_and(|end| end == "md"))
    {
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            let prose = !fenced && !line.starts_with('|') && !line.starts_with("    ");
            assert!(
                !prose || line.chars().count() <= MAX_COLUMNS,
                "{path}:{}: more than {MAX_COLUMNS} columns",
                number + 1
            );
        }
    }
}

#[test]
fn file_names_say_what_is_inside() {
    let empty = |name: &str| {
        // A program of Kubernetes.
        let name = name.replace(['_', '-'], " ");
        let name = name.replace("kube controller manager", "");
        let mut words = name.split([' ', '.']);
        words.any(|word| {
            EMPTY_NAMES
                .iter()
                .any(|e| word.strip_suffix('s').unwrap_or(word) == *e)
        })
    };
    let found: Vec<String> = files().filter(|path| path.split('/').any(empty)).collect();
    assert!(
        found.is_empty(),
        "choose a name for what is inside: {found:#?}"
    );
}

#[test]
fn nothing_points_to_somebodys_machine() {
    // Spelled so that this file is not a finding.
    let machines = ["/ro~ot/", "/ho~me/", "/Us~ers/", "/wo~rk/", "/mn~t/"];
    let machines = machines.map(|path| path.replace('~', ""));
    for (path, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            let found = machines.iter().find(|machine| starts_a_path(line, machine));
            assert!(found.is_none(), "{path}:{}: {line}", number + 1);
        }
    }
}

#[test]
fn crates_come_from_the_public_registry() {
    let lock = fs::read_to_string(workspace().join("Cargo.lock")).unwrap();
    let public = r#"source = "registry+https://github.com/rust-lang/crates.io-index""#;
    for line in lock.lines().filter(|line| line.starts_with("source = ")) {
        assert_eq!(line, public);
    }
}

/// Whether `path` stands in the line as the begin of an absolute path, not inside of another.
fn starts_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}$~".contains(c))
    })
}

fn lines_of_code(text: &str) -> usize {
    let code = text
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let lines = code.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// Files that are committed or about to be.
fn files() -> impl Iterator<Item = String> {
    let output = Command::new("git")
        .current_dir(workspace())
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()
        .unwrap();
    assert!(output.status.success(), "git ls-files: {}", output.status);
    let files = String::from_utf8(output.stdout).unwrap();
    let files: Vec<String> = files.lines().map(str::to_owned).collect();
    files
        .into_iter()
        .filter(|path| Path::new(&workspace()).join(path).is_file())
}

/// Their texts, each after its path.
pub(crate) fn texts() -> impl Iterator<Item = (String, String)> {
    files()
        .filter_map(|path| Some((fs::read_to_string(workspace().join(&path)).ok()?, path)))
        .map(|(text, path)| (path, text))
}
