//! What the API server refuses of a schedule and its time zone.
//!
//! The grammar is that of Kubernetes, by regular expressions, as those are all that a CRD has.
//! They refuse nothing that Kubernetes accepts, but for schedules of more than 1024 characters;
//! what they cannot see (a day that never comes, a zone nobody knows) is left to the operator.

use std::ops::Range;

use kube::core::{Reason, Rule};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::open_schema::{nullable, with_rules};

/// White space as the native parser has it, for use in a character class: Unicode's.
const SPACE: &str = r"\pZ\t-\r\x{85}";

/// A number's sign and leading zeros, which mean nothing.
const ZEROS: &str = "[+]?0*";

/// The old way to name a zone. Only schedules that have it already may keep it.
const ZONE_PREFIX: &str = r"(?:CRON_)?TZ=[^ ]* [\pZ\t-\r\x{85}]*";

/// CEL: the schedule without [`ZONE_PREFIX`].
const ZONELESS: &str = r"self.replace(self.find(r'^(?:CRON_)?TZ=[^ ]* [\pZ\t-\r\x{85}]*'), '', 1)";

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// One of the five fields.
struct Field {
    name: &'static str,
    /// Its numbers, without leading zeros.
    numbers: &'static str,
    names: &'static [&'static str],
    must_be: &'static str,
}

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        numbers: "[1-5]?[0-9]",
        names: &[],
        must_be: "0 to 59",
    },
    Field {
        name: "hour",
        numbers: "1?[0-9]|2[0-3]",
        names: &[],
        must_be: "0 to 23",
    },
    Field {
        name: "day of month",
        numbers: "[1-9]|[12][0-9]|3[01]",
        names: &[],
        must_be: "1 to 31",
    },
    Field {
        name: "month",
        numbers: "[1-9]|1[0-2]",
        names: &MONTHS,
        must_be: "1 to 12 or jan to dec",
    },
    Field {
        name: "day of week",
        numbers: "[0-6]",
        names: &DAYS,
        must_be: "0 to 6 or sun to sat; Sunday is 0, not 7",
    },
];

/// The schema of `spec.schedule`.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    let mut schema = json!({"type": "string", "minLength": 1, "maxLength": 1024});
    let mut rules = vec![descriptor(), five_fields()];
    rules.extend(zone_prefix_only_if_it_was_there());
    rules.extend((0..FIELDS.len()).map(field));
    rules.push(no_range_runs_backwards());
    with_rules(&mut schema, &rules);
    object(schema)
}

/// The schema of `spec.timeZone`.
pub(super) fn time_zone_schema(_: &mut SchemaGenerator) -> Schema {
    // Parts of 1 to 14 characters, none of them `.`, and no two dots, which no zone has.
    let part = "(?:[A-Za-z0-9_+][-A-Za-z0-9._+]{0,13}|[.][-A-Za-z0-9_+][-A-Za-z0-9._+]{0,12})";
    // An unchanged name is let pass: the zones that are known change with the server.
    let mut schema = nullable(json!({"type": "string", "maxLength": 255}));
    with_rules(
        &mut schema,
        &[Rule::new(format!(
            "oldSelf.hasValue() && oldSelf.value() == self || \
             self.matches('^{part}(?:/{part})*$') && !self.matches('^(?i:local)$')"
        ))
        .message(
            "must be the name of a time zone, e.g. Europe/Berlin or Etc/UTC, and not Local; for \
             UTC leave the field out",
        )
        .optional_old_self(true)],
    );
    object(schema)
}

/// Two rules, as the cost of an optional old value cannot be estimated.
fn zone_prefix_only_if_it_was_there() -> [Rule; 2] {
    let rule = |expression: &str| {
        Rule::new(expression)
            .message(
                "cannot use TZ or CRON_TZ in schedule: use the timeZone field instead, e.g. \
                 timeZone: Asia/Tokyo",
            )
            .reason(Reason::FieldValueForbidden)
    };
    [
        rule("oldSelf.hasValue() || !self.contains('TZ')").optional_old_self(true),
        rule("!self.contains('TZ') || oldSelf.contains('TZ')"),
    ]
}

fn descriptor() -> Rule {
    let number = "(?:[0-9]+[.]?[0-9]*|[.][0-9]+)";
    let duration = format!("[-+]?(?:0|(?:{number}(?:ns|us|µs|μs|ms|s|m|h))+)");
    let descriptor =
        format!("@(?:yearly|annually|monthly|weekly|daily|midnight|hourly|every {duration})");
    Rule::new(format!(
        "!{ZONELESS}.startsWith('@') || \
         self.matches(r'^(?:{descriptor}|{ZONE_PREFIX}{descriptor}[{SPACE}]*)$')"
    ))
    .message(
        "must be one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly, in \
         lower case, or @every with a duration in h, m and s, e.g. @every 1h30m; there is no \
         @reboot",
    )
}

fn five_fields() -> Rule {
    Rule::new(format!(
        "{ZONELESS}.matches(r'^@|^[{SPACE}]*(?:[^{SPACE}]+(?:[{SPACE}]+|$)){{5}}$')"
    ))
    .message(
        "must have five fields (minute, hour, day of month, month, day of week), e.g. \
         \"30 2 * * mon-fri\", without seconds and years, or be one of @daily, @hourly and so on, \
         without blanks around it",
    )
}

/// The n-th field has only what it can have, if there are that many.
fn field(n: usize) -> Rule {
    let Field {
        name,
        numbers,
        names,
        must_be,
    } = &FIELDS[n];
    let mut value = format!("{ZEROS}(?:{numbers})");
    if !names.is_empty() {
        value = format!("(?:{value}|(?i:{}))", names.join("|"));
    }
    // What follows the `-` of a star means nothing.
    let item = format!("(?:[*?](?:-[^,/{SPACE}]*)?|{value}(?:-{value})?)(?:/{ZEROS}[1-9][0-9]*)?");
    // Empty items mean nothing.
    let list = format!("(?:,|{item},)*(?:,|{item},?)(?:[{SPACE}]|$)");
    let before = format!("(?:[^{SPACE}]+[{SPACE}]+){{{n}}}");
    let fewer = format!("(?:[^{SPACE}]+(?:[{SPACE}]+|$)){{0,{n}}}$");
    let message = format!(
        "the {name} must be {must_be}: a *, numbers, ranges such as 1-5 and steps such as */2 (1 \
         or more), separated by commas"
    );
    Rule::new(format!(
        "{ZONELESS}.matches(r'^[{SPACE}]*(?:@|{before}{list}|{fewer})')"
    ))
    .message(message.as_str())
}

/// Numbers compare the same in each field, names only with what their own field has.
fn no_range_runs_backwards() -> Rule {
    let mut backwards = backward_numbers();
    backwards.extend(backward_names(&MONTHS, 1));
    backwards.extend(backward_names(&DAYS, 0));
    let backwards = format!(
        "(?i:(?:^|[,{SPACE}])(?:{})(?:[,/{SPACE}]|$))",
        backwards.join("|")
    );
    Rule::new(format!("!{ZONELESS}.matches(r'{backwards}')")).message(
        "has a range that runs backwards: write it as two, e.g. fri-sat,sun-mon in place of \
         fri-mon",
    )
}

/// Ranges of two numbers of at most two digits, the first of them greater.
fn backward_numbers() -> Vec<String> {
    let mut backwards = vec![format!("{ZEROS}[1-9][0-9]-{ZEROS}[0-9]")];
    for tens in 2..=5 {
        backwards.push(format!("{ZEROS}{tens}[0-9]-{ZEROS}[1-{}][0-9]", tens - 1));
    }
    for tens in ["", "1", "2", "3", "4", "5"] {
        let pairs: Vec<String> = (1..=9)
            .map(|one| format!("{one}-{ZEROS}{tens}[0-{}]", one - 1))
            .collect();
        backwards.push(format!("{ZEROS}{tens}(?:{})", pairs.join("|")));
    }
    backwards
}

/// Ranges from a name to an earlier one or its number, or from a number to the name of an earlier
/// one. The first name is number `first`.
fn backward_names(names: &[&str], first: usize) -> Vec<String> {
    let numbers = |places: Range<usize>| {
        let numbers: Vec<String> = places.map(|place| (place + first).to_string()).collect();
        format!("{ZEROS}(?:{})", numbers.join("|"))
    };
    let mut backwards = Vec::new();
    for (place, name) in names.iter().enumerate() {
        if place > 0 {
            let earlier = names[..place].join("|");
            backwards.push(format!("{name}-(?:{earlier}|{})", numbers(0..place)));
        }
        if place + 1 < names.len() {
            backwards.push(format!("{}-{name}", numbers(place + 1..names.len())));
        }
    }
    backwards
}

fn object(schema: Value) -> Schema {
    match schema {
        Value::Object(object) => object.into(),
        _ => Schema::default(),
    }
}
