//! The kinds, undisturbed and with a crash.

use carillon_proof::kinds::{KINDS, broadcast_job, cron_job, job};
use carillon_proof::{campaign, crash_anywhere, kinds, regressions};

#[test]
fn each_scenario_comes_to_its_end_and_breaks_nothing() {
    let mut broken = 0;
    let undisturbed = kinds::undisturbed();
    for scenario in kinds::scenarios().into_iter().chain(undisturbed) {
        let begin = std::time::Instant::now();
        let case = crash_anywhere::clean(&scenario);
        let outcome = case.run(&scenario).unwrap();
        println!(
            "{}: {} writes, {} revisions, {:?}",
            scenario.name,
            outcome.writes,
            outcome.history.steps.len(),
            begin.elapsed(),
        );
        if let Err(failure) = case.judge(&scenario, &outcome, None) {
            println!("{failure}");
            broken += 1;
        }
    }
    assert_eq!(broken, 0);
}

#[test]
fn a_crash_at_one_point_in_twenty_breaks_nothing() {
    let (mut runs, mut failures) = (0, Vec::new());
    for scenario in kinds::scenarios() {
        let clean = crash_anywhere::clean(&scenario).run(&scenario).unwrap();
        let cases = crash_anywhere::cases(&scenario, clean.writes);
        let jobs = campaign::every_nth(20, &cases, &scenario, &clean.end);
        let found = campaign::run(&jobs, 3).unwrap();
        runs += found.counts.runs;
        println!(
            "{}: {} runs, {} failures",
            scenario.name,
            jobs.len(),
            found.failures.len()
        );
        failures.extend(found.failures);
    }
    println!("{runs} runs");
    for failure in failures.iter().take(5) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{}", failures.len());
}

#[test]
fn a_process_that_starts_again_with_an_old_view_breaks_nothing() {
    let mut failures = Vec::new();
    for scenario in kinds::scenarios().into_iter().step_by(3) {
        let clean = crash_anywhere::clean(&scenario).run(&scenario).unwrap();
        let alone = crash_anywhere::clean_without_lease(&scenario);
        let cases = crash_anywhere::stale_cases(&scenario, &alone.run(&scenario).unwrap());
        let jobs = campaign::every_nth(300, &cases[cases.len() / 2..], &scenario, &clean.end);
        failures.extend(campaign::run(&jobs, 3).unwrap().failures);
    }
    for failure in failures.iter().take(5) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{}", failures.len());
}

#[test]
fn a_standby_that_was_not_told_what_has_happened_takes_over_and_breaks_nothing() {
    let mut failures = Vec::new();
    for scenario in kinds::scenarios() {
        let clean = crash_anywhere::clean(&scenario).run(&scenario).unwrap();
        let two = crash_anywhere::clean_with_standby(&scenario);
        let cases = crash_anywhere::blind_cases(&scenario, &two.run(&scenario).unwrap());
        // Of Jobs, whose status is no ledger, a good part.
        let every = if scenario.subject.kind == "Job" {
            5
        } else {
            40
        };
        let jobs = campaign::every_nth(every, &cases, &scenario, &clean.end);
        failures.extend(campaign::run(&jobs, 3).unwrap().failures);
    }
    for failure in failures.iter().take(5) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{}", failures.len());
}

#[test]
fn requests_that_are_refused_now_and_then_for_ever_keep_nothing_from_its_end() {
    let scenarios = kinds::scenarios();
    let case = |scenario| crash_anywhere::under_pressure(scenario, 1);
    let cases: Vec<_> = scenarios.iter().step_by(3).map(case).collect();
    let chosen = scenarios.iter().step_by(3).zip(&cases);
    let jobs: Vec<_> = chosen
        .map(|(scenario, case)| campaign::Job::alone(case, scenario))
        .collect();
    let found = campaign::run(&jobs, 3).unwrap();
    for failure in &found.failures {
        println!("{failure}");
    }
    assert!(found.failures.is_empty(), "{}", found.failures.len());
    assert!(found.counts.evaluations["L6"] > 0);
}

#[test]
fn random_schedules_break_nothing_and_come_to_their_end_once_all_is_mended() {
    for (kind, seeds) in [
        (&broadcast_job::KIND, 1..=18),
        (&cron_job::KIND, 1..=18),
        (&job::KIND, 1..=24),
    ] {
        let cases = seeds.map(|seed| kind.case_with_tenant(seed));
        let found = kind.run(cases, 3).unwrap();
        for failure in &found.failures {
            println!("{failure}");
        }
        assert!(found.failures.is_empty(), "{}", found.failures.len());
    }
}

#[test]
fn seeds_that_have_once_found_something_find_nothing_more() {
    for kind in KINDS {
        let cases = regressions::of(kind);
        let found = kind.run(cases, 3).unwrap();
        for failure in &found.failures {
            println!("{failure}");
        }
        assert!(found.failures.is_empty(), "{}", found.failures.len());
    }
    assert!(!regressions::ALL.is_empty());
}
