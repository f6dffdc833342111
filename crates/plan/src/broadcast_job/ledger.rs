//! Changes of records become writes of slices, in an order that keeps the log a lock.

use std::collections::BTreeMap;

use carillon_api::node_result_slice::MAX_RESULTS_PER_SLICE;

use super::progress::Place;
use crate::broadcast_job::action::{Action, SliceWrite, Step};
use crate::record::{Record, Slice};

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
    let mut contents: BTreeMap<usize, Vec<Record>> = BTreeMap::new();
    for (&(slice_at, record_at), record) in updates {
        let records = contents
            .entry(slice_at)
            .or_insert_with(|| slices[slice_at].records.clone());
        records[record_at] = record.clone();
    }
    let tail = slices.len().checked_sub(1);
    let mut left = reservations.into_iter().peekable();
    let mut sealed_tail = tail.is_some_and(|at| slices[at].sealed);
    let mut seal = seal && !sealed_tail;
    if let Some(at) = tail {
        let room = MAX_RESULTS_PER_SLICE.saturating_sub(slices[at].records.len());
        if room > 0 && (left.peek().is_some() || seal) {
            let records = contents
                .entry(at)
                .or_insert_with(|| slices[at].records.clone());
            records.extend(left.by_ref().take(room));
            // The seal must be where the next reservation would go, or that one would not meet it.
            if seal && records.len() < MAX_RESULTS_PER_SLICE {
                sealed_tail = true;
                seal = false;
            }
        }
    }
    let mut full = tail.is_some_and(|at| {
        let records = contents.get(&at).unwrap_or(&slices[at].records);
        records.len() >= MAX_RESULTS_PER_SLICE
    });
    let changed: Vec<Action> = contents
        .into_iter()
        .map(|(at, records)| {
            let sealed = if Some(at) == tail {
                sealed_tail
            } else {
                slices[at].sealed
            };
            slice(slices[at].index, Some(slices[at].rv), sealed, &records)
        })
        .collect();
    let mut steps = Vec::new();
    if !changed.is_empty() {
        steps.push(Step::needed(changed));
    }
    let mut index = slices.last().map_or(0, |last| last.index + 1);
    while left.peek().is_some() || seal || full {
        let records: Vec<Record> = left.by_ref().take(MAX_RESULTS_PER_SLICE).collect();
        let sealed = seal && left.peek().is_none() && records.len() < MAX_RESULTS_PER_SLICE;
        seal &= !sealed;
        full = records.len() >= MAX_RESULTS_PER_SLICE;
        steps.push(Step::needed(vec![slice(index, None, sealed, &records)]));
        index += 1;
    }
    steps
}

/// Begins a log that is empty.
pub(super) fn begin() -> Action {
    slice(0, None, false, &[])
}

fn slice(index: u32, rv: Option<u64>, sealed: bool, records: &[Record]) -> Action {
    let results = records.iter().map(Record::write).collect();
    Action::WriteSlice(SliceWrite {
        index,
        rv,
        sealed,
        results,
    })
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
            records: records(count),
            ..Slice::default()
        }
    }

    type Shape = (u32, Option<u64>, usize, bool);

    /// (index, rv, results, sealed) of each write, step by step.
    fn shape(steps: &[Step]) -> Vec<Vec<Shape>> {
        let one = |action: &Action| match action {
            Action::WriteSlice(w) => (w.index, w.rv, w.results.len(), w.sealed),
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
