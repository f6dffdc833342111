//! Changes of records become writes of slices, in an order that keeps the log a lock.

use std::collections::BTreeMap;

use carillon_api::node_result_slice::MAX_RESULTS_PER_SLICE;

use crate::broadcast_job::action::{Action, SliceWrite, Step};
use crate::record::{Record, Slice};
use crate::record_index::Place;

/// Steps that store `updates`, append `reservations` and, with `seal`, close the log.
///
/// The slices that exist are written first, each only if it is still as it was read. New slices
/// follow one by one, since a reservation in slice n + 1 is valid only if slice n did not change.
/// A slice that is full is followed by another one, so that who finds a full one at the end knows that
/// one is missing.
pub(super) fn write(
    slices: &[Slice],
    updates: &BTreeMap<Place, Record>,
    reservations: Vec<Record>,
    seal: bool,
) -> Vec<Step> {
    let mut writes: BTreeMap<usize, SliceWrite> = BTreeMap::new();
    for (&(slice_at, record_at), record) in updates {
        let write = writes.entry(slice_at);
        let write = write.or_insert_with(|| unchanged(&slices[slice_at]));
        write.changed.insert(record_at, record.clone());
    }
    let mut left = reservations.into_iter().peekable();
    let mut seal = seal && !slices.last().is_some_and(|last| last.sealed);
    let mut full = false;
    if let Some(last) = slices.last() {
        let room = MAX_RESULTS_PER_SLICE.saturating_sub(last.records.len());
        full = room == 0;
        if room > 0 && (left.peek().is_some() || seal) {
            let write = writes.entry(slices.len() - 1);
            let write = write.or_insert_with(|| unchanged(last));
            write.added.extend(left.by_ref().take(room));
            full = write.len() >= MAX_RESULTS_PER_SLICE;
            // The seal must be where the next reservation would go, or that one would not meet it.
            write.sealed |= seal && !full;
            seal &= full;
        }
    }
    let mut steps = Vec::new();
    if !writes.is_empty() {
        let writes = writes.into_values().map(Action::WriteSlice).collect();
        steps.push(Step::needed(writes));
    }
    let mut index = slices.last().map_or(0, |last| last.index + 1);
    while left.peek().is_some() || seal || full {
        let added: Vec<Record> = left.by_ref().take(MAX_RESULTS_PER_SLICE).collect();
        full = added.len() >= MAX_RESULTS_PER_SLICE;
        let sealed = seal && left.peek().is_none() && !full;
        seal &= !sealed;
        steps.push(Step::needed(vec![Action::WriteSlice(SliceWrite {
            index,
            sealed,
            added,
            ..SliceWrite::default()
        })]));
        index += 1;
    }
    steps
}

/// Begins a log that is empty.
pub(super) fn begin() -> Action {
    Action::WriteSlice(SliceWrite::default())
}

fn unchanged(slice: &Slice) -> SliceWrite {
    SliceWrite {
        index: slice.index,
        rv: Some(slice.rv),
        sealed: slice.sealed,
        kept: slice.records.clone(),
        ..SliceWrite::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(count: usize) -> Vec<Record> {
        (0..count)
            .map(|n| Record {
                attempt: n as u32 + 1,
                ..Record::default()
            })
            .collect()
    }

    fn stored(index: u32, count: usize) -> Slice {
        Slice {
            index,
            rv: 7,
            records: records(count).into(),
            ..Slice::default()
        }
    }

    type Shape = (u32, Option<u64>, usize, bool);

    /// (index, rv, results, sealed) of each write, step by step.
    fn shape(steps: &[Step]) -> Vec<Vec<Shape>> {
        let one = |action: &Action| match action {
            Action::WriteSlice(w) => (w.index, w.rv, w.len(), w.sealed),
            other => panic!("{other:?}"),
        };
        steps
            .iter()
            .map(|step| step.actions.iter().map(one).collect())
            .collect()
    }

    #[test]
    fn reservations_fill_the_last_slice_and_then_new_ones_in_turn() {
        let slices = [stored(0, 250), stored(1, 240)];
        let steps = write(&slices, &BTreeMap::new(), records(300), false);
        assert_eq!(
            shape(&steps),
            vec![
                vec![(1, Some(7), 250, false)],
                vec![(2, None, 250, false)],
                vec![(3, None, 40, false)],
            ]
        );
    }

    #[test]
    fn a_slice_that_is_full_is_followed_by_an_empty_one() {
        let none = BTreeMap::new();
        assert_eq!(
            shape(&write(&[stored(0, 240)], &none, records(10), false)),
            vec![vec![(0, Some(7), 250, false)], vec![(1, None, 0, false)]]
        );
        assert_eq!(
            shape(&write(&[], &none, records(250), false)),
            vec![vec![(0, None, 250, false)], vec![(1, None, 0, false)]]
        );
        assert_eq!(
            shape(&write(&[stored(0, 250)], &none, vec![], false)),
            vec![vec![(1, None, 0, false)]],
            "the last plan was cut off"
        );
    }

    #[test]
    fn a_seal_lies_where_the_next_reservation_would_go() {
        let none = BTreeMap::new();
        assert_eq!(
            shape(&write(&[], &none, vec![], true)),
            vec![vec![(0, None, 0, true)]]
        );
        assert_eq!(
            shape(&write(&[stored(0, 3)], &none, vec![], true)),
            vec![vec![(0, Some(7), 3, true)]]
        );
        assert_eq!(
            shape(&write(&[stored(0, 250)], &none, vec![], true)),
            vec![vec![(1, None, 0, true)]]
        );
        let sealed = Slice {
            sealed: true,
            ..stored(0, 3)
        };
        assert!(write(&[sealed], &none, vec![], true).is_empty());
    }

    #[test]
    fn an_outcome_is_written_in_its_own_slice_and_no_other() {
        let slices = [stored(0, 250), stored(1, 9)];
        let updates = BTreeMap::from([((0, 4), Record::default())]);
        assert_eq!(
            shape(&write(&slices, &updates, vec![], false)),
            vec![vec![(0, Some(7), 250, false)]]
        );
    }
}
