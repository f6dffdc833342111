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

/// Kinds that OpenKruise has, too: kubectl takes the one or the other.
const OF_OPENKRUISE: [&str; 2] = ["broadcastjobs", "broadcastjob"];

/// Kinds that Kubernetes has, too: kubectl takes the one of Kubernetes.
const OF_KUBERNETES: [&str; 4] = ["cronjobs", "cronjob", "daemonsets", "daemonset"];

/// Whether a line has kubectl do something with a kind that is named without its group.
fn is_ambiguous(line: &str) -> bool {
    words(line).any(|word| is_one_of(&OF_OPENKRUISE, word))
}

/// Whether a line has kubectl delete objects of a kind that is named without its group.
fn deletes_of_kubernetes(line: &str) -> bool {
    let deletes = words(line).any(|word| word == "delete");
    deletes && words(line).any(|word| is_one_of(&OF_KUBERNETES, word))
}

/// What stands behind kubectl.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let command = line.split_once("kubectl ").map(|(_, command)| command);
    // Our plugin knows no kind but ours.
    let command = command.filter(|it| !it.starts_with("carillon") && !it.starts_with("apply"));
    let words = command
        .unwrap_or_default()
        .split(|c: char| c.is_whitespace() || c == ',');
    words.map(|word| word.trim_start_matches(['`', '\'', '"']))
}

/// Whether a word is one of these kinds, without a group.
fn is_one_of(kinds: &[&str], word: &str) -> bool {
    let is_end = |c: char| c.is_whitespace() || "/,`'\"\\".contains(c);
    kinds.iter().any(|kind| {
        let rest = word.strip_prefix(kind);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(is_end))
    })
}

/// Lines that people copy from and that are so.
fn lines(is: fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in texts() {
        if !PLACES.iter().any(|place| path.starts_with(place)) || path.starts_with(PAST) {
            continue;
        }
        let lines = text.lines().filter(|line| is(line));
        found.extend(lines.map(|line| format!("{path}: {line}")));
    }
    found
}

#[test]
fn no_command_names_a_kind_that_openkruise_has_too_without_its_group() {
    let found = lines(is_ambiguous);
    assert!(
        found.is_empty(),
        "write cbj or broadcastjobs.carillon.dev: {found:#?}"
    );
}

#[test]
fn no_command_deletes_a_kind_that_kubernetes_has_too_without_its_group() {
    let found = lines(deletes_of_kubernetes);
    assert!(
        found.is_empty(),
        "write the group, as in cronjobs.carillon.dev or cronjobs.batch: {found:#?}"
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

#[test]
fn a_command_deletes_of_kubernetes_if_the_kind_stands_alone() {
    for (line, deletes) in [
        ("    kubectl delete cronjobs --all -A", true),
        ("run `kubectl delete cronjob/report`", true),
        ("kubectl -n ops delete cbj,cronjobs --all", true),
        ("then `kubectl delete daemonset agent`", true),
        ("kubectl delete cronjobs.carillon.dev --all", false),
        (
            "kubectl delete cronjobs.batch/report --cascade=orphan",
            false,
        ),
        ("kubectl delete crd cronjobs.carillon.dev", false),
        ("kubectl delete -f examples/cronjob-broadcast.yaml", false),
        ("kubectl delete ccj report", false),
        ("`kubectl get cronjob` shows those of batch/v1", false),
        ("kubectl create job --from=cronjob/report", false),
        ("kubectl carillon resume cronjob/report", false),
    ] {
        assert_eq!(deletes_of_kubernetes(line), deletes, "{line}");
    }
}
