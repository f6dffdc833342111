//! A command that people copy must not mean an object of somebody else.

use crate::layout::texts;

/// Where commands stand that people copy.
const PLACES: [&str; 6] = [
    "README.md",
    "charts/carillon",
    "crates/cli/src",
    "crates/operator/src",
    "docs",
    "examples",
];

/// Not asked: decisions tell how things were.
const PAST: &str = "docs/decisions";

/// Whether a line has kubectl do something with a kind that is named without its group.
fn is_ambiguous(line: &str) -> bool {
    let Some((_, command)) = line.split_once("kubectl ") else {
        return false;
    };
    // Our plugin knows no kind but ours.
    if command.starts_with("carillon") || command.starts_with("apply") {
        return false;
    }
    let is_end = |c: char| c.is_whitespace() || "/,`'\"\\".contains(c);
    let words = command.split(|c: char| c.is_whitespace() || c == ',');
    words
        .map(|word| word.trim_start_matches(['`', '\'', '"']))
        .any(|word| {
            ["broadcastjobs", "broadcastjob"].iter().any(|kind| {
                let rest = word.strip_prefix(kind);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(is_end))
            })
        })
}

/// OpenKruise has BroadcastJobs, too, and kubectl takes the one or the other.
#[test]
fn no_command_names_a_kind_that_openkruise_has_too_without_its_group() {
    let mut found = Vec::new();
    for (path, text) in texts() {
        if !PLACES.iter().any(|place| path.starts_with(place)) || path.starts_with(PAST) {
            continue;
        }
        let lines = text.lines().filter(|line| is_ambiguous(line));
        found.extend(lines.map(|line| format!("{path}: {line}")));
    }
    assert!(
        found.is_empty(),
        "write cbj or broadcastjobs.carillon.dev: {found:#?}"
    );
}

#[test]
fn a_command_is_ambiguous_if_its_kind_stands_alone() {
    for (line, ambiguous) in [
        ("kubectl delete broadcastjobs --all -A", true),
        (
            "    kubectl wait --for=condition=Complete broadcastjob/hello",
            true,
        ),
        (
            "run `kubectl get cronjobs.carillon.dev,broadcastjobs -A`",
            true,
        ),
        ("kubectl delete broadcastjobs.carillon.dev --all", false),
        ("kubectl get cbj hello", false),
        ("kubectl apply -f examples/broadcastjob-minimal.yaml", false),
        ("kubectl carillon retry broadcastjob/hello", false),
        (
            "kubectl get nrs -l carillon.dev/broadcastjob-name=hello",
            false,
        ),
    ] {
        assert_eq!(is_ambiguous(line), ambiguous, "{line}");
    }
}
