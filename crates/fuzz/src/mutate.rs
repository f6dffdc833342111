//! Samples, changed at random.

use fastrand::Rng;

/// Bytes of an input, at most.
const LONGEST: usize = 64 << 10;

/// What readers stumble over.
const TOKENS: [&str; 42] = [
    "0",
    "-1",
    "1e9",
    "1e999",
    "-0.0",
    "0.1",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "4294967296",
    "2147483648",
    "99999999999999999999999999999999",
    "null",
    "true",
    "[]",
    "{}",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "\\",
    ",",
    ":",
    "\\u0000",
    "\\ud800",
    "\n",
    "\0",
    "*",
    "/",
    "-",
    "@every ",
    "../",
    "%",
    "?watch=true",
    "ü",
    "\u{202e}",
    "1h",
    "Ki",
    "E",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
];

/// A sample with a few changes; now and then anything.
pub(crate) fn input(samples: &[&[u8]], rng: &mut Rng) -> Vec<u8> {
    let sample = rng.choice(samples).copied().unwrap_or_default();
    let mut input = match rng.u8(..) {
        0..8 => (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
        8..12 => nested(rng),
        _ => sample.to_vec(),
    };
    for _ in 0..=rng.usize(..6) {
        change(&mut input, samples, rng);
    }
    input.truncate(LONGEST);
    input
}

fn nested(rng: &mut Rng) -> Vec<u8> {
    let open = rng.choice(["[", "{\"a\":", "\"", "(", "- "]).unwrap_or("[");
    open.repeat(rng.usize(1..5000)).into_bytes()
}

fn change(input: &mut Vec<u8>, samples: &[&[u8]], rng: &mut Rng) {
    let at = rng.usize(..=input.len());
    let end = at + rng.usize(..=(input.len() - at).min(64));
    match rng.u8(..10) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << rng.u8(..8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = rng.u8(..);
            }
        }
        2 => drop(input.splice(at..end, [])),
        3 => drop(input.splice(at..at, [rng.u8(..), rng.u8(..)])),
        4 => input.truncate(at),
        5 => {
            let part = input[at..end].repeat(rng.usize(1..200));
            drop(input.splice(at..at, part));
        }
        6 => {
            let other = rng.choice(samples).copied().unwrap_or_default();
            let from = rng.usize(..=other.len());
            drop(input.splice(at..end, other[from..].iter().copied()));
        }
        7 => number(input, at, rng),
        _ => {
            let token = rng.choice(TOKENS).unwrap_or_default();
            drop(input.splice(at..end.min(at + rng.usize(..4)), token.bytes()));
        }
    }
}

/// The next number becomes another one.
fn number(input: &mut Vec<u8>, from: usize, rng: &mut Rng) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(begin) = input[from..].iter().position(is_digit) else {
        return;
    };
    let begin = from + begin;
    let length = input[begin..]
        .iter()
        .take_while(|byte| is_digit(byte))
        .count();
    let text = match rng.u8(..4) {
        0 => rng.u64(..).to_string(),
        1 => rng.i64(..).to_string(),
        2 => rng.u8(..).to_string(),
        _ => rng
            .choice(TOKENS[..12].iter())
            .copied()
            .unwrap_or_default()
            .to_owned(),
    };
    drop(input.splice(begin..begin + length, text.into_bytes()));
}
