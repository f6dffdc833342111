//! What differs from run to run, replaced by something of the same kind.

/// Characters of a pod name's last part, which follows from the job's uid.
const HASH: &str = "bcdfghjklmnpqrstvwxz245678901367";
const HASH_LENGTH: usize = 10;

/// The text with times, ages, estimates and the last part of pod names made equal. Ages and estimates
/// are found by the headers above them.
pub(super) fn mask(text: &str) -> String {
    let mut ages: Option<usize> = None;
    let mut out = String::new();
    for line in text.lines() {
        let line = if line.contains("ETA   ") && line.contains("AGE") {
            ages = line.find("ETA");
            line.split_once("ETA")
                .map_or_else(String::new, |(start, rest)| {
                    let after = rest.trim_start().trim_start_matches("AGE");
                    format!("{start}ETA   AGE{after}")
                })
        } else if let Some((start, rest)) = ages.and_then(|at| split_at_column(line, at)) {
            estimate_and_age(start, rest)
        } else {
            ages = None;
            words(line)
        };
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
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
    let words: Vec<String> = line
        .split(' ')
        .map(|word| match word {
            word if is_time(word) => "2026-01-01T12:00:00Z".to_owned(),
            word if timed && is_seconds(word) => "1s".to_owned(),
            word => hidden_hash(word),
        })
        .collect();
    words.join(" ")
}

/// `2026-01-01T12:00:00Z`
fn is_time(word: &str) -> bool {
    let shape: String = word
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    shape == "0000-00-00T00:00:00Z"
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
}
