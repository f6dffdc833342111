use super::mutant::{HARMLESS, MUTANTS};
use super::worlds::{FAIL_FAST, SMALL, TWO_NODES};
use super::{Limits, Outcome, PathStep, World, explore, replay};

const LIMITS: Limits = Limits { states: 2_000_000 };

fn tell(world: &World, outcome: &Outcome) -> String {
    let mut text = format!("{}: {outcome}\n", world.name);
    for step in outcome.violation.iter().flat_map(|finding| &finding.path) {
        text.push_str("  ");
        text.push_str(&step.0);
        text.push('\n');
    }
    text
}

#[test]
fn whatever_two_leaders_see_and_whenever_they_stop_no_law_is_broken() {
    for world in SMALL {
        let outcome = explore(&world, LIMITS);
        assert!(
            outcome.exhausted && outcome.violation.is_none(),
            "{}",
            tell(&world, &outcome)
        );
        assert!(outcome.states > 500, "{}", tell(&world, &outcome));
    }
}

#[test]
fn every_mistake_is_found_by_the_law_it_breaks() {
    for (world, law) in MUTANTS {
        let outcome = explore(&world, LIMITS);
        let found = outcome.violation.as_ref().map(|f| f.violation.law);
        assert_eq!(found, Some(law), "{}", tell(&world, &outcome));
    }
}

#[test]
fn in_which_order_a_leader_takes_the_nodes_endangers_nothing() {
    let outcome = explore(&HARMLESS, LIMITS);
    assert!(outcome.exhausted, "{}", tell(&HARMLESS, &outcome));
}

#[test]
fn a_creation_that_arrives_after_its_reservation_was_given_up_is_a_weakness_that_is_shown() {
    let strict = World {
        strict: true,
        ..FAIL_FAST
    };
    let outcome = explore(&strict, LIMITS);
    let found = outcome.violation.as_ref().map(|f| f.violation.law);
    let law = "no pod is created for an attempt that is over";
    assert_eq!(found, Some(law), "{}", tell(&strict, &outcome));
}

#[test]
fn a_path_leads_to_its_violation_again_and_the_planner_without_the_mistake_leaves_it() {
    let (world, law) = MUTANTS[0];
    let finding = explore(&world, LIMITS).violation.unwrap();
    let file = serde_json::to_string(&finding.path).unwrap();
    let path: Vec<PathStep> = serde_json::from_str(&file).unwrap();
    assert_eq!(replay(&world, &path), Ok(Some(finding.violation.clone())));
    assert_eq!(finding.violation.law, law);
    assert!(!matches!(replay(&TWO_NODES, &path), Ok(Some(_))));
}

#[test]
fn a_search_that_is_cut_short_says_so() {
    let outcome = explore(&TWO_NODES, Limits { states: 100 });
    assert!(!outcome.exhausted && outcome.violation.is_none() && outcome.states <= 101);
}

#[test]
fn two_searches_of_a_world_are_the_same() {
    let [one, two] = [(), ()].map(|()| explore(&SMALL[0], LIMITS));
    let size = |o: &Outcome| (o.states, o.transitions, o.depth, o.stores, o.views);
    assert_eq!(size(&one), size(&two));
}

/// The whole proof takes minutes; optimized, and only when asked for.
#[test]
#[ignore = "for an optimized build"]
fn no_law_is_broken_in_any_world() {
    let limits = Limits {
        states: 100_000_000,
    };
    for world in super::worlds::ALL {
        let outcome = explore(&world, limits);
        println!("{}", tell(&world, &outcome));
        assert!(outcome.exhausted, "{}", tell(&world, &outcome));
    }
}
