//! Random histories of families of BroadcastJobs; and that they would find bugs.

use std::time::Instant;

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use carillon_plan::broadcast_job::plan;
use carillon_proof::families::{self, Found, Mode, Planner};
use carillon_proof::zoo;

/// Seeds that are the same each time.
const KEPT: u64 = 6_000;
/// And these, which have found something.
const FOUND: [u64; 3] = [945_691_708, 336_101_513, 425_644_139];
/// And so many that nobody has tried.
const FRESH: u64 = 3_000;
/// A bug has to show in so many.
const HUNTED: u64 = 2_000;
/// Bugs of the zoo.
const BUGS: [&str; 5] = [
    "a retry is a job like any other",
    "a retry does not wait for its turn",
    "a retry runs nodes that another one has served",
    "a request that is made twice is carried out twice",
    "what a retry has done is gone with it",
];

fn run(what: &str, first: u64, histories: u64) -> Found {
    let begin = Instant::now();
    let found = families::run(first, histories, Mode::of, plan, 5);
    println!(
        "{what}, seeds from {first} on: {found}; {:.1?}",
        begin.elapsed()
    );
    for failure in &found.failures {
        println!("{failure}\n");
    }
    found
}

#[test]
fn whatever_happens_to_a_family_no_rule_is_broken() {
    let mut found = run("kept", 0, KEPT);
    for seed in FOUND {
        found.add(run("found", seed, 1));
    }
    found.add(run("fresh", fastrand::u64(1..1_000_000_000), FRESH));
    assert!(found.failures.is_empty(), "{found}");
    println!("{:?}", found.requests);
    // Each part of a plan was put to the test.
    for word in [
        "close_log",
        "confirm_gone",
        "confirm_job",
        "confirm_pod",
        "confirm_slice",
        "create_pod",
        "delete_job",
        "delete_pod",
        "join_family",
        "label_pod",
        "release_pod",
        "write_slice",
        "write_status",
    ] {
        let count = found.requests.get(word).copied().unwrap_or_default();
        assert!(count > 20, "{word}: {count}");
    }
}

#[test]
fn a_seed_gives_the_same_history_each_time() {
    for seed in 0..50 {
        let [one, two] = [(), ()].map(|()| families::history(seed, Mode::of(seed), plan));
        assert_eq!(one.plans, two.plans, "seed {seed}");
        assert_eq!(one.requests, two.requests, "seed {seed}");
    }
    let bug = bug(BUGS[1]);
    let [one, two] = [(), ()].map(|()| families::run(0, 200, Mode::of, bug, usize::MAX));
    assert!(!one.failures.is_empty());
    assert_eq!(one.failures, two.failures);
}

#[test]
fn every_bug_of_a_family_that_is_put_back_breaks_a_rule() {
    let mut escaped = Vec::new();
    for name in BUGS {
        let found = families::run(0, HUNTED, Mode::of, bug(name), 1);
        match found.failures.first() {
            Some(failure) => println!(
                "{name}: {}, after {} histories: {}",
                failure.rule, found.histories, failure.detail
            ),
            None => escaped.push(name),
        }
    }
    assert!(escaped.is_empty(), "{escaped:?}");
}

/// The planner that has this bug of the zoo.
fn bug(name: &str) -> Planner {
    let mut all = zoo::all().into_iter();
    let mutant = all.find(|mutant| mutant.name == name);
    let mutant = mutant.unwrap_or_else(|| panic!("no bug {name:?}"));
    mutant.rules.of::<BroadcastJobs>().plan
}
