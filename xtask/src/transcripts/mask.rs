//! What differs from run to run, replaced by something of the same kind.

/// Characters of a pod name's last part, which follows from the job's uid.
const HASH: &str = "bcdfghjklmnpqrstvwxz245678901367";
const HASH_LENGTH: usize = 10;

/// The text with times, ages, estimates, distances and the last part of names made equal. Ages,
/// estimates and distances are found by the headers above them.
pub(super) fn mask(text: &str) -> String {
    let mut above = Above::Nothing;
    let mut out = String::new();
    for line in text.lines() {
        let header = Above::of(line);
        let line = if header == Above::Nothing {
            let behind = above.column().and_then(|at| split_at_column(line, at));
            match (above, behind) {
                (Above::Estimate(_), Some((start, rest))) => estimate_and_age(start, rest),
                (Above::Distance(_), Some((start, rest))) => column(start, rest, "90d"),
                (Above::Age(_), Some((start, rest))) => column(&words(start), rest, "1m"),
                _ => {
                    above = Above::Nothing;
                    words(line)
                }
            }
        } else {
            above = header;
            header.masked(line)
        };
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The header that the lines to come are under, and its column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Above {
    Nothing,
    /// ETA, and AGE behind it.
    Estimate(usize),
    /// IN: how long until a run.
    Distance(usize),
    /// AGE, in a table without ETA.
    Age(usize),
}

impl Above {
    fn of(line: &str) -> Self {
        if line.contains("ETA   ") && line.contains("AGE") {
            return line.find("ETA").map_or(Self::Nothing, Self::Estimate);
        }
        if line.starts_with("SCHEDULED (") {
            let at = line.find("   IN");
            return at.map_or(Self::Nothing, |at| Self::Distance(at + 3));
        }
        // Headers are in capitals.
        let at = line.find("   AGE").filter(|_| *line == line.to_uppercase());
        at.map_or(Self::Nothing, |at| Self::Age(at + 3))
    }

    fn column(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Estimate(at) | Self::Distance(at) | Self::Age(at) => Some(at),
        }
    }

    /// The header itself, of which the columns move with what is below.
    fn masked(self, line: &str) -> String {
        let Some((start, rest)) = self.column().and_then(|at| line.split_at_checked(at)) else {
            return line.to_owned();
        };
        if let Self::Distance(_) | Self::Age(_) = self {
            return column(start, rest, "");
        }
        let after = rest.trim_start_matches("ETA").trim_start();
        format!("{start}ETA   AGE{}", after.trim_start_matches("AGE"))
    }
}

/// `IN     CLOCK`, `349d   comes twice`: the first of these columns.
fn column(start: &str, rest: &str, masked: &str) -> String {
    let (cell, behind) = rest.split_once("  ").unwrap_or((rest, ""));
    let cell = match cell.trim() {
        word @ ("IN" | "AGE" | "-") => word,
        _ => masked,
    };
    format!("{start}{cell:<3}   {}", behind.trim_start())
}

fn split_at_column(line: &str, column: usize) -> Option<(&str, &str)> {
    let (at, _) = line.char_indices().nth(column)?;
    Some(line.split_at(at))
}

fn estimate_and_age(start: &str, rest: &str) -> String {
    let mut cells = rest.splitn(2, "   ");
    let eta = match cells.next().unwrap_or_default().trim() {
        "-" => "-  ",
        _ => "90s",
    };
    let rest = cells.next().unwrap_or_default().trim_start();
    // The columns behind the age begin two spaces after it at the earliest.
    let behind = rest
        .split_once("  ")
        .map_or("", |(_, behind)| behind.trim_start());
    let age = if behind.is_empty() { "1m" } else { "1m    " };
    format!("{start}{eta}   {age}{behind}")
}

fn words(line: &str) -> String {
    let timed = line.contains('T') && line.contains('Z');
    let words: Vec<&str> = line.split(' ').collect();
    let has_shape = |at: usize, wanted: &str| words.get(at).is_some_and(|w| shape(w) == wanted);
    let mut masked: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if has_shape(at, "0000-00-00") && has_shape(at + 1, "00:00:00") {
            // The offset behind it, and what follows that without a blank.
            masked.push("2026-01-01 12:00:00 +00:00".to_owned());
            let offset = words.get(at + 2).copied().unwrap_or_default();
            if let Some(last) = masked.last_mut() {
                last.push_str(offset.get(6..).unwrap_or_default());
            }
            at += 3;
            continue;
        }
        masked.push(match *word {
            word if shape(word) == "0000-00-00T00:00:00Z" => "2026-01-01T12:00:00Z".to_owned(),
            word if timed && is_seconds(word) => "1s".to_owned(),
            word => hidden_hash(word),
        });
        at += 1;
    }
    let line = masked.join(" ");
    if line.starts_with("simulated in ") {
        return "simulated in 1.0s".to_owned();
    }
    if line.starts_with("That takes about ") {
        return pace(&line);
    }
    match line.rsplit_once(", in ") {
        Some((start, _)) if line.starts_with("The next run is") => format!("{start}, in 90d"),
        _ => line,
    }
}

/// `That takes about 28s if each round takes 7s, within which …`.
fn pace(line: &str) -> String {
    let mut last = "";
    let words = line.split(' ').map(|word| {
        let behind = std::mem::replace(&mut last, word);
        let ends = word.strip_suffix(',').map_or("", |_| ",");
        match behind {
            "about" => format!("1m{ends}"),
            "takes" if word.starts_with(|c: char| c.is_ascii_digit()) => format!("15s{ends}"),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A time with zeros for its digits.
fn shape(word: &str) -> String {
    let zero = |c: char| if c.is_ascii_digit() { '0' } else { c };
    word.chars().map(zero).collect()
}

fn is_seconds(word: &str) -> bool {
    word.strip_suffix('s')
        .is_some_and(|digits| digits.len() == 1 && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn hidden_hash(word: &str) -> String {
    match word.rsplit_once('-') {
        Some((name, hash))
            if hash.len() == HASH_LENGTH && hash.chars().all(|c| HASH.contains(c)) =>
        {
            format!("{name}-{}", "x".repeat(HASH_LENGTH))
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn two_runs_of_a_table_look_the_same() {
        let run = |eta: &str, gap: &str, age: &str| {
            format!(
                "NAME   STATUS    ETA{gap}AGE\nfix    Größer    {eta}   {age}\nwarm   Complete  -{}{age}\n",
                " ".repeat(eta.len() + 2)
            )
        };
        let one = mask(&run("4m30s", "     ", "13s"));
        let other = mask(&run("95s", "   ", "2m5s"));
        assert_eq!(one, other);
        assert!(
            one.ends_with("fix    Größer    90s   1m\nwarm   Complete  -     1m\n"),
            "{one}"
        );
    }

    #[test]
    fn times_and_names_of_pods_are_replaced_and_other_words_stay() {
        let line = "node-0001   2026-11-21T15:36:07Z   2s   fix-kernel-w4q9tn659t   fix-retry-1\n";
        assert_eq!(
            mask(line),
            "node-0001   2026-01-01T12:00:00Z   1s   fix-kernel-xxxxxxxxxx   fix-retry-1\n"
        );
        assert_eq!(mask("at most 5s\n"), "at most 5s\n");
    }

    #[test]
    fn how_long_until_a_run_is_replaced_and_its_time_stays() {
        let run = |distance: &str, gap: &str| {
            format!(
                "SCHEDULED (UTC)               IN{}   CLOCK\n\
                 Sun 2030-11-03 01:30 +00:00   {distance}   comes twice\n\
                 Mon 2030-11-04 01:30 +00:00   -{gap}   no run\n\
                 Tue 2030-11-05 01:30 +00:00   {distance}\n",
                " ".repeat(distance.len() - 2)
            )
        };
        let one = mask(&run("1443d", "    "));
        assert_eq!(one, mask(&run("4y", " ")));
        assert!(
            one.ends_with(
                "Sun 2030-11-03 01:30 +00:00   90d   comes twice\n\
                 Mon 2030-11-04 01:30 +00:00   -     no run\n\
                 Tue 2030-11-05 01:30 +00:00   90d\n"
            ),
            "{one}"
        );
    }

    #[test]
    fn ages_without_an_estimate_and_a_pace_are_replaced() {
        let run = |age: &str, gap: &str| {
            format!(
                "POD          STATE   AGE{gap}WHY\nagent-0000   Ready   {age}   x\nagent-0001   Ready   -{gap}\n",
            )
        };
        let one = mask(&run("13s", "   "));
        assert_eq!(one, mask(&run("2m5s", "    ")));
        assert!(one.contains("Ready   1m    x\n"), "{one}");
        let pace = |all: &str, one: &str| {
            let line =
                format!("That takes about {all} if each round takes {one}, within which 7 pods");
            mask(&line)
        };
        assert_eq!(pace("28s", "7s"), pace("0s", "0s"));
    }

    #[test]
    fn times_with_an_offset_are_replaced_with_what_is_behind_them_kept() {
        let line = "The next run is that of 2027-01-01 00:00:00 -05:00, in 40d\n";
        let masked = "The next run is that of 2026-01-01 12:00:00 +00:00, in 90d\n";
        assert_eq!(mask(line), masked);
        let change = "* 2030-11-03: the clock is set back from 02:00 to 01:00\n";
        assert_eq!(mask(change), change);
    }
}
