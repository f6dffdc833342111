//! An interlock that only looks on.

use std::cell::Cell;

use carillon_operator::controllers::ServedKind;
use carillon_plan::interlock::Trip;
use carillon_plan::plan::Plan;
use jiff::Timestamp;

thread_local! {
    pub(super) static TRIPPED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The interlock of a kind, which is heard and not obeyed: what comes of the plan is for the oracle to find.
#[allow(clippy::unnecessary_wraps)] // it stands in the place of one that refuses
pub(super) fn look_on<K: ServedKind>(
    snapshot: &K::Snapshot<'_>,
    plan: &Plan<K::Action>,
    now: Timestamp,
) -> Result<(), Trip> {
    if let Err(trip) = (K::RULES.verify)(snapshot, plan, now)
        && TRIPPED.get().is_none()
    {
        TRIPPED.set(Some(trip.rule));
    }
    Ok(())
}
