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

#[test]
fn try_out() {
    let n = |k: &str, d: u32| std::env::var(k).map_or(d, |v| v.parse().unwrap());
    let mut w = worlds::TWO_NODES;
    w.nodes = n("NODES", 2) as u8;
    w.parallelism = n("PAR", 1);
    w.strict = n("STRICT", 1) == 1;
    w.fail_fast = n("FF", 0) == 1;
    w.scheduler = n("SCHED", 0) == 1;
    w.filled = n("FILLED", 0) as u16;
    w.lookback = match n("BACK", 0) {
        0 => None,
        b => Some(b as u8),
    };
    w.budget.late_requests = n("LATE", 0) as u8;
    w.budget.failures = n("FAIL", 0) as u8;
    w.budget.deletions = n("DEL", 0) as u8;
    w.budget.cordons = n("CORD", 0) as u8;
    w.budget.replacements = n("REPL", 0) as u8;
    w.budget.hours = n("HOURS", 0) as u8;
    run(&w);
}
