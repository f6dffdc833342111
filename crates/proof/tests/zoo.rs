//! Each published bug, put back, is caught.

use std::collections::HashSet;

use carillon_proof::zoo::{self, Zoo};

#[test]
fn every_bug_that_is_put_back_is_caught_and_the_same_runs_without_it_break_nothing() {
    let mut cages = Zoo::default();
    let mut failures = Vec::new();
    let mut controlled = HashSet::new();
    println!("| bug | published | broken | case | interlock too |\n|---|---|---|---|---|");
    for mutant in zoo::all() {
        let (name, published) = (mutant.name, mutant.published);
        for case in &mutant.cases {
            if !controlled.insert(serde_json::to_string(case).unwrap()) {
                continue;
            }
            if let Some(failure) = cages.control(case).unwrap() {
                failures.push(format!("{name}: broken without the bug\n{failure}"));
            }
        }
        let Some(caught) = cages.hunt(&mutant).unwrap() else {
            println!("| {name} | {published} | - | - | - |");
            failures.push(format!("{name}: not caught"));
            continue;
        };
        let (broken, case) = (&caught.failure.broken, &caught.failure.case);
        let interlock = match (mutant.has_planner(), caught.interlock) {
            (true, true) => "yes",
            (true, false) => "no",
            (false, _) => "not a plan",
        };
        println!(
            "| {name} | {published} | {} | {} | {interlock} |",
            broken.join(" "),
            case.scenario
        );
        if !broken.iter().any(|id| mutant.caught_by.contains(id)) {
            failures.push(format!(
                "{name}: caught by {broken:?}, expected one of {:?}\n{}",
                mutant.caught_by, caught.failure
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
