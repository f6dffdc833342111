//! Sets of completion indexes, as a status writes them: `0,2-4,7`.

use std::collections::BTreeSet;

/// A set of indexes.
pub(crate) type Indexes = BTreeSet<i64>;

/// Reads a list that has to be in order, without repetition, and below `end`.
pub(crate) fn strictly(text: &str, end: i64) -> Option<Indexes> {
    let mut all = Indexes::new();
    if text.is_empty() {
        return Some(all);
    }
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                (first < last).then_some((first, last))?
            }
            None => (number(part)?, number(part)?),
        };
        let after = all.last().is_none_or(|known| *known < first);
        if !after || last >= end {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// Reads what can be read, below `end`.
pub(crate) fn leniently(text: &str, end: i64) -> Indexes {
    let parts = text.split(',');
    parts
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((number(first)?, number(last)?))
        })
        .flat_map(|(first, last)| first..=last.min(end - 1))
        .filter(|index| *index < end)
        .collect()
}

fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
