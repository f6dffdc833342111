//! How far something is, as a bar.

/// Signs of a bar.
const WIDTH: usize = 30;

/// Parts of a whole.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Parts {
    /// Ended well.
    pub(crate) done: i32,
    /// Ended, and not well.
    pub(crate) failed: i32,
    /// Under way.
    pub(crate) active: i32,
    /// The whole.
    pub(crate) all: i32,
}

/// `[======xx>>......]`: what is done from the left, then what has failed, then what is under way.
pub(crate) fn bar(parts: Parts) -> String {
    let count = |number: i32| usize::try_from(number).unwrap_or(0);
    let signs = [('=', parts.done), ('x', parts.failed), ('>', parts.active)];
    let counts = signs.map(|(sign, number)| (count(number), sign == 'x'));
    let lengths = lengths(counts, count(parts.all), WIDTH);
    let mut text = String::from("[");
    for ((sign, _), length) in signs.into_iter().zip(lengths) {
        text.extend(std::iter::repeat_n(sign, length));
    }
    text.extend(std::iter::repeat_n(
        '.',
        WIDTH - lengths.iter().sum::<usize>(),
    ));
    text.push(']');
    text
}

/// How long each part of a bar is. Of a part that is told to be seen there is a sign however small it is, as long as
/// there is room.
pub(crate) fn lengths<const N: usize>(
    parts: [(usize, bool); N],
    whole: usize,
    width: usize,
) -> [usize; N] {
    let (mut sum, mut drawn) = (0, 0);
    parts.map(|(number, seen)| {
        sum += number;
        let least = usize::from(seen && number > 0 && drawn < width);
        let end = (sum * width / whole.max(1)).min(width).max(drawn + least);
        let length = end - drawn;
        drawn = end;
        length
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_fills_from_the_left_and_failed_and_active_stand_apart() {
        for (numbers, expected) in [
            ([0, 0, 0, 10], "[..............................]"),
            ([5, 0, 0, 10], "[===============...............]"),
            ([5, 1, 2, 10], "[===============xxx>>>>>>......]"),
            ([9, 1, 0, 10], "[===========================xxx]"),
            ([10, 0, 0, 10], "[==============================]"),
            ([500, 1, 0, 1000], "[===============x..............]"),
            ([0, 0, 0, 0], "[..............................]"),
            ([7, 7, 7, 5], "[==============================]"),
            ([-1, 0, 3, 3], "[>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>]"),
        ] {
            let [done, failed, active, all] = numbers;
            let parts = Parts {
                done,
                failed,
                active,
                all,
            };
            assert_eq!(bar(parts), expected, "{numbers:?}");
        }
    }
}
