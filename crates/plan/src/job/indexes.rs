//! Sets of completion indexes, as a Job's status and its success policy write them
//! (upstream: `indexed_job_utils.go`).

use std::fmt;
use std::iter::once;

/// Inclusive bounds.
type Interval = (u32, u32);

/// Completion indexes, as inclusive intervals: sorted, none touches another. Size and cost go by the
/// number of intervals, not of indexes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Indexes(Vec<Interval>);

impl Indexes {
    /// Reads `1,3-5,7`. As upstream does, a part that is no interval is skipped, the first part that
    /// starts at or beyond `completions` ends the text, and the end of an interval is cut to
    /// `completions`. Parts that are out of order, overlap or end before they start, none of which the
    /// API server lets through, are read as the set they mean; upstream would miscount them.
    pub fn read(text: &str, completions: u32) -> Self {
        let end = i64::from(completions);
        let parts = text.split(',').filter_map(read_interval);
        let within = parts.take_while(|(first, _)| *first < end);
        let mut intervals: Vec<Interval> = within
            .filter_map(|(first, last)| {
                let last = last?.min(end - 1);
                Some((u32::try_from(first).ok()?, u32::try_from(last).ok()?))
            })
            .filter(|(first, last)| first <= last)
            .collect();
        intervals.sort_unstable();
        Self(joined(intervals.into_iter()))
    }

    /// Whether the index is one of them.
    pub fn contains(&self, index: u32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.0
            .iter()
            .fold(0, |sum: u32, interval| sum.saturating_add(size(*interval)))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are in both.
    pub fn intersection_len(&self, other: &Self) -> u32 {
        let mut all = [&*self.0, &*other.0].concat();
        all.sort_unstable();
        let only_ours = Self(joined(all.into_iter())).len() - other.len();
        self.len() - only_ours
    }

    /// Those below `completions` that are not among them, lowest first.
    pub fn missing(&self, completions: u32) -> impl Iterator<Item = u32> {
        let ends = self.0.iter().map(|(_, last)| last.saturating_add(1));
        let starts = self.0.iter().map(|(first, _)| *first);
        let gaps = once(0).chain(ends).zip(starts.chain(once(completions)));
        gaps.take_while(move |(start, _)| *start < completions)
            .flat_map(move |(start, end)| start..end.min(completions))
    }
}

impl Extend<u32> for Indexes {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, indexes: T) {
        self.0
            .extend(indexes.into_iter().map(|index| (index, index)));
        self.0.sort_unstable();
        self.0 = joined(self.0.drain(..));
    }
}

impl FromIterator<u32> for Indexes {
    fn from_iter<T: IntoIterator<Item = u32>>(indexes: T) -> Self {
        let mut set = Self::default();
        set.extend(indexes);
        set
    }
}

impl fmt::Display for Indexes {
    /// `1,3-5,7`; two neighbours are `3,4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// A part of the text: where it starts, and where it ends if that can be read. What follows a second
/// hyphen does not count.
fn read_interval(part: &str) -> Option<(i64, Option<i64>)> {
    let mut limits = part.split('-').map(str::parse);
    let first = limits.next()?.ok()?;
    let last = limits.next().map_or(Some(first), Result::ok);
    Some((first, last))
}

fn size((first, last): Interval) -> u32 {
    (last - first).saturating_add(1)
}

/// Sorted intervals with those that touch made one.
fn joined(sorted: impl Iterator<Item = Interval>) -> Vec<Interval> {
    let mut intervals: Vec<Interval> = Vec::new();
    for (first, last) in sorted {
        match intervals.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => intervals.push((first, last)),
        }
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use fastrand::Rng;

    fn set(indexes: &[u32]) -> Indexes {
        indexes.iter().copied().collect()
    }

    #[test]
    fn what_is_no_interval_is_skipped_and_the_rest_is_kept() {
        let cases = [
            ("", ""),
            ("0", "0"),
            ("0,1-foo,bar", "0"),
            ("0,1-foo,bar,3", "0,3"),
            ("foo-1,,-2,-,2", "2"),
            ("2-3-9,5", "2,3,5"),
            ("99999999999999999999,2", "2"),
            ("1-99999999999999999999,2", "2"),
            (" 1,2 ,+3", "3"),
        ];
        for (text, expected) in cases {
            let read = Indexes::read(text, 10);
            assert_eq!(read.to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_lies_beyond_the_completions_is_forgotten() {
        let cases = [
            ("0-5,8-10", 8, "0-5"),
            ("0-5,8-10", 10, "0-5,8,9"),
            ("0-5,8-10", 11, "0-5,8-10"),
            ("0-5,8-10", 1, "0"),
            ("0-5,8-10", 0, ""),
            ("12,1", 10, ""),
            ("10,1", 10, ""),
            ("12-foo,1", 10, ""),
            ("1-99999999999", u32::MAX, "1-4294967294"),
        ];
        for (text, completions, expected) in cases {
            let read = Indexes::read(text, completions);
            assert_eq!(read.to_string(), expected, "{text:?} of {completions}");
        }
    }

    #[test]
    fn neighbours_are_written_as_two_and_more_as_an_interval() {
        let cases = [
            (&[1, 3, 4, 5, 7][..], "1,3-5,7"),
            (&[0, 1, 2, 4, 5], "0-2,4,5"),
            (&[4, 3, 4], "3,4"),
            (&[], ""),
            (&[u32::MAX, 0], "0,4294967295"),
        ];
        for (indexes, expected) in cases {
            assert_eq!(set(indexes).to_string(), expected);
        }
        assert_eq!(Indexes::read("1,2,3-4", 9).to_string(), "1-4");
    }

    #[test]
    fn parts_out_of_order_are_the_set_they_mean() {
        let cases = [
            ("5,1-3", "1-3,5", 4),
            ("3,3", "3", 1),
            ("1-5,2-3", "1-5", 5),
            ("5-3,7", "7", 1),
        ];
        for (text, expected, many) in cases {
            let read = Indexes::read(text, 10);
            assert_eq!(read.to_string(), expected, "{text:?}");
            assert_eq!(read.len(), many, "{text:?}");
        }
    }

    #[test]
    fn new_indexes_join_the_intervals_they_touch() {
        let cases = [
            ("0,4,5,10-12", &[8, 7, 2][..], "0,2,4,5,7,8,10-12"),
            ("3,4,6", &[2, 7, 8], "2-4,6-8"),
            ("2,7,8", &[3, 4, 6], "2-4,6-8"),
            ("2-7", &[0, 3, 5, 9], "0,2-7,9"),
            ("0-2,4-6", &[3], "0-6"),
        ];
        for (before, added, expected) in cases {
            let mut extended = Indexes::read(before, 13);
            extended.extend(added.iter().copied());
            assert_eq!(extended.to_string(), expected);
        }
    }

    #[test]
    fn the_largest_index_is_one_like_any_other() {
        let mut all = Indexes(vec![(0, u32::MAX - 1)]);
        assert_eq!(all.missing(u32::MAX).next(), None);
        assert!(!all.contains(u32::MAX));
        all.extend([u32::MAX]);
        assert!(all.contains(u32::MAX));
        assert_eq!(all.len(), u32::MAX, "one too many for the type");
        assert_eq!(all.intersection_len(&all), u32::MAX);
        assert_eq!(all.missing(u32::MAX).next(), None);
    }

    #[test]
    fn a_hundred_thousand_indexes_cost_as_much_as_their_intervals() {
        let mut every_second: Indexes = (0..100_000).step_by(2).collect();
        assert_eq!(every_second.len(), 50_000);
        assert_eq!(every_second.missing(100_000).count(), 50_000);
        let text = every_second.to_string();
        assert_eq!(Indexes::read(&text, 100_000), every_second);
        every_second.extend((1..100_000).step_by(2));
        assert_eq!(every_second.to_string(), "0-99999");
        assert_eq!(every_second.0.len(), 1);
    }

    #[test]
    fn a_set_of_indexes_is_a_set() {
        let mut rng = Rng::with_seed(0x1d);
        for round in 0..2_000 {
            let completions = rng.u32(0..40);
            let mut some = || (0..rng.usize(0..30)).map(|_| rng.u32(0..40)).collect();
            let (ours, theirs): (Vec<u32>, Vec<u32>) = (some(), some());
            let model: BTreeSet<u32> = ours.iter().copied().collect();
            let other: BTreeSet<u32> = theirs.iter().copied().collect();
            let mut indexes = Indexes::default();
            ours.chunks(3)
                .for_each(|some| indexes.extend(some.iter().copied()));
            let rest = set(&theirs);
            assert_eq!(indexes, set(&ours), "round {round}");
            assert_eq!(Indexes::read(&indexes.to_string(), 40), indexes);
            assert_eq!(indexes.len() as usize, model.len());
            assert_eq!(indexes.is_empty(), model.is_empty());
            assert!((0..41).all(|index| indexes.contains(index) == model.contains(&index)));
            let common = model.intersection(&other).count();
            assert_eq!(indexes.intersection_len(&rest) as usize, common);
            let missing = (0..completions).filter(|index| !model.contains(index));
            assert!(indexes.missing(completions).eq(missing), "round {round}");
            let touching = |pair: &[Interval]| pair[1].0 <= pair[0].1 + 1;
            assert!(!indexes.0.windows(2).any(touching), "round {round}");
        }
    }
}
