//! Why tests failed, in a line each: what cargo says of it stands far above, among the output of all the others.

/// Longest reason that is told, in bytes.
const LONGEST: usize = 400;

/// Reads what cargo prints, line by line.
#[derive(Debug, Default)]
pub(super) struct Why {
    /// The test whose output is being read, and whether it has panicked.
    reading: Option<(String, bool)>,
    reasons: Vec<String>,
}

impl Why {
    pub(super) fn read(&mut self, line: &str) {
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.reading = Some((name.to_owned(), false));
            return;
        }
        let Some((name, panicked)) = &mut self.reading else {
            return;
        };
        if std::mem::take(panicked) {
            let mut end = line.len().min(LONGEST);
            while !line.is_char_boundary(end) {
                end -= 1;
            }
            self.reasons
                .push(format!("FAILED {name}: {}", &line[..end]));
            self.reading = None;
        } else {
            *panicked = line.starts_with("thread ") && line.contains(" panicked at ");
        }
    }

    pub(super) fn reasons(&self) -> &[String] {
        &self.reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_each_panic_is_its_reason() {
        let mut why = Why::default();
        for line in "\
test a::b ... FAILED

failures:

---- a::b stdout ----
some output
thread 'a::b' (77) panicked at tests/a.rs:1:2:
not within 2m: the job ends
more of it
thread 'other' panicked at tests/a.rs:9:9:
something else

---- c stdout ----

thread 'c' panicked at tests/c.rs:3:4:
assertion failed
failures:
    a::b"
            .lines()
        {
            why.read(line);
        }
        let expected = [
            "FAILED a::b: not within 2m: the job ends",
            "FAILED c: assertion failed",
        ];
        assert_eq!(why.reasons(), expected);
    }
}
