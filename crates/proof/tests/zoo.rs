//! Each published bug, put back, is caught.

use std::collections::HashSet;

use carillon_proof::case::Case;
use carillon_proof::zoo::{self, Zoo};
use carillon_proof::{crash_anywhere, scenario};

#[test]
fn every_bug_that_is_put_back_is_caught_and_the_same_runs_without_it_break_nothing() {
    let mut cages = Zoo::default();
    let mut failures = Vec::new();
    let mut controlled = HashSet::new();
    println!("| bug | published | broken | case | interlock too |\n|---|---|---|---|---|");
    for mutant in zoo::all() {
        let (name, published) = (mutant.name, mutant.published);
        let Some(caught) = cages.hunt(&mutant).unwrap() else {
            println!("| {name} | {published} | - | - | - |");
            failures.push(format!("{name}: not caught"));
            continue;
        };
        let file = serde_json::to_string(&caught.failure.case).unwrap();
        if controlled.insert(file)
            && let Some(failure) = cages.control(&caught.failure.case).unwrap()
        {
            failures.push(format!("{name}: broken without the bug\n{failure}"));
        }
        let (broken, case) = (&caught.failure.broken, &caught.failure.case);
        let interlock = match caught.interlock {
            Some(rule) => rule,
            None if mutant.has_planner() => "no",
            None => "not a plan",
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

/// For whoever adds a bug: `BUG=` part of its name, and if wanted `SCENARIO=` part of one, or
/// `SEEDS=` how many of its first case.
#[test]
#[ignore = "a search for the runs in which a bug shows"]
fn which_runs_show_a_bug() {
    let wanted = |variable, name: &str| match std::env::var(variable) {
        Ok(part) => name.contains(&part),
        Err(_) => true,
    };
    let mut keeper = Zoo::default();
    for mutant in zoo::all().iter().filter(|m| wanted("BUG", m.name)) {
        println!("{}", mutant.name);
        for scenario in scenario::all() {
            if !wanted("SCENARIO", scenario.name) {
                continue;
            }
            let mut cases = vec![crash_anywhere::clean(&scenario)];
            if std::env::var("SCENARIO").is_ok() {
                let clean = cases[0].run(&scenario).unwrap();
                cases.extend(crash_anywhere::cases(&scenario, clean.writes));
            }
            if let Ok(seeds) = std::env::var("SEEDS") {
                let seeds = 1..=seeds.parse().unwrap();
                cases = seeds
                    .map(|seed| Case {
                        seed,
                        ..mutant.cases[0].clone()
                    })
                    .collect();
            }
            for case in cases {
                let found = keeper.watch(mutant, &case).unwrap();
                let broken = found.map(|caught| caught.failure.broken.join(" "));
                let disturbance = serde_json::to_string(&case.disturbance).unwrap();
                println!(
                    "  {} {}: {broken:?} {disturbance}",
                    case.scenario, case.seed
                );
            }
        }
    }
}
