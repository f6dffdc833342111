use super::{Limits, Outcome, World, explore, worlds};

fn run(world: &World) -> Outcome {
    let outcome = explore(world, Limits { states: 30_000_000 });
    eprintln!(
        "{}: {} states, {} transitions, depth {}, {} stores, {} views, exhausted {}, {:?}",
        world.name,
        outcome.states,
        outcome.transitions,
        outcome.depth,
        outcome.stores,
        outcome.views,
        outcome.exhausted,
        outcome.duration
    );
    if let Some(finding) = &outcome.violation {
        eprintln!("{}: {}", finding.violation.law, finding.violation.detail);
        for step in &finding.path {
            eprintln!("  {step}");
        }
    }
    outcome
}

#[test]
fn two_leaders_never_break_a_law_on_two_nodes() {
    let outcome = run(&worlds::TWO_NODES);
    assert!(outcome.exhausted && outcome.violation.is_none());
}
