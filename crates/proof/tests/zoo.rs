//! Each published bug, put back, is caught.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Instant;

use carillon_proof::case::Case;
use carillon_proof::processors::on_all;
use carillon_proof::swarm;
use carillon_proof::zoo::{self, Mutant, Zoo};
use carillon_proof::{crash_anywhere, kinds};

#[test]
fn every_bug_that_is_put_back_is_caught_and_the_same_runs_without_it_break_nothing() {
    catch(&zoo::all());
}

#[test]
fn every_bug_that_a_tenant_could_use_is_caught_and_beside_it_nothing_is_broken_without_it() {
    catch(&zoo::of_tenants());
}

fn catch(mutants: &[Mutant]) {
    let controlled = Mutex::default();
    println!("| bug | published | broken | case | interlock too |\n|---|---|---|---|---|");
    let failures = on_all(mutants.len(), Zoo::default, |cages, at| {
        let (begin, mutant) = (Instant::now(), &mutants[at]);
        let escaped = escapes(cages, mutant, &controlled).expect("runs begin");
        eprintln!("{:6.1} s: {}", begin.elapsed().as_secs_f64(), mutant.name);
        ControlFlow::Continue(escaped)
    });
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Why a bug is not caught as it should be. The runs without it that were looked at are `controlled`.
fn escapes(
    cages: &mut Zoo,
    mutant: &Mutant,
    controlled: &Mutex<HashSet<String>>,
) -> anyhow::Result<Option<String>> {
    let (name, published) = (mutant.name, mutant.published);
    let Some(caught) = cages.hunt(mutant)? else {
        println!("| {name} | {published} | - | - | - |");
        return Ok(Some(format!("{name}: not caught")));
    };
    let (broken, case) = (&caught.failure.broken, &caught.failure.case);
    let interlock = match caught.interlock {
        Some(rule) => rule,
        None if mutant.has_planner => "no",
        None => "not a plan",
    };
    println!(
        "| {name} | {published} | {} | {} | {interlock} |",
        broken.join(" "),
        case.scenario
    );
    let file = serde_json::to_string(case)?;
    let first = controlled.lock().expect("nobody panicked").insert(file);
    if first && let Some(failure) = cages.control(case)? {
        return Ok(Some(format!("{name}: broken without the bug\n{failure}")));
    }
    let expected = broken.iter().any(|id| mutant.caught_by.contains(id));
    Ok((!expected).then(|| {
        format!(
            "{name}: caught by {broken:?}, expected one of {:?}\n{}",
            mutant.caught_by, caught.failure
        )
    }))
}

/// For whoever adds a bug: `BUG=` part of its name or of where it was published, and if wanted `SCENARIO=` part
/// of one, or `SEEDS=` how many of its first case.
#[test]
#[ignore = "a search for the runs in which a bug shows"]
fn which_runs_show_a_bug() {
    let bug = std::env::var("BUG").unwrap_or_default();
    let mut keeper = Zoo::default();
    for mutant in zoo::all()
        .iter()
        .filter(|mutant| mutant.name.contains(&bug) || mutant.published.contains(&bug))
    {
        println!("{}", mutant.name);
        let cases = match std::env::var("SEEDS") {
            Ok(seeds) => of_seeds(&mutant.cases[0], seeds.parse().unwrap()),
            Err(_) => of_scenarios(),
        };
        for case in cases {
            let Some(caught) = keeper.watch(mutant, &case).unwrap() else {
                continue;
            };
            let broken = caught.failure.broken.join(" ");
            let disturbance = serde_json::to_string(&case.disturbance).unwrap();
            println!("  {} {}: {broken} {disturbance}", case.scenario, case.seed);
        }
    }
}

fn of_seeds(first: &Case, seeds: u64) -> Vec<Case> {
    let of = |seed| match swarm::of(first) {
        Some(kind) => kind.case(seed),
        None => Case {
            seed,
            ..first.clone()
        },
    };
    (1..=seeds).map(of).collect()
}

fn of_scenarios() -> Vec<Case> {
    let Ok(wanted) = std::env::var("SCENARIO") else {
        let all = kinds::scenarios();
        return all.iter().map(crash_anywhere::clean).collect();
    };
    let all = kinds::scenarios().into_iter();
    let mut cases = Vec::new();
    for scenario in all.filter(|scenario| scenario.name.contains(&wanted)) {
        let clean = crash_anywhere::clean(&scenario);
        let writes = clean.run(&scenario).expect("it begins").writes;
        cases.push(clean);
        cases.extend(crash_anywhere::cases(&scenario, writes));
        let alone = crash_anywhere::clean_without_lease(&scenario);
        let alone = alone.run(&scenario).expect("it begins");
        cases.extend(crash_anywhere::stale_cases(&scenario, &alone));
    }
    cases
}
