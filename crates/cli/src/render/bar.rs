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
    let whole = i64::from(parts.all.max(1));
    let mut sum = 0;
    let mut drawn = 0;
    let mut text = String::from("[");
    for (number, sign) in [(parts.done, '='), (parts.failed, 'x'), (parts.active, '>')] {
        sum += i64::from(number.max(0));
        let end = (sum * WIDTH as i64 / whole).min(WIDTH as i64) as usize;
        // A failure is seen however few there are.
        let least = usize::from(sign == 'x' && number > 0 && drawn < WIDTH);
        let end = end.max(drawn + least);
        text.extend(std::iter::repeat_n(sign, end - drawn));
        drawn = end;
    }
    text.extend(std::iter::repeat_n('.', WIDTH - drawn));
    text.push(']');
    text
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
