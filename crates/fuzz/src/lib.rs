//! Strange bytes for those who read what others have written. Each crate lists its readers in its
//! `fuzz.rs`, as tests; `cargo xtask fuzz` runs the same for as long as one likes.
//!
//! A reader is given samples that were changed at random. It must not panic, must not take more memory
//! than a multiple of what it was given, and not much time.

mod mutate;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fastrand::Rng;

/// How long to go on, instead of a number of inputs.
pub const SECONDS: &str = "CARILLON_FUZZ_SECONDS";
/// The seed to begin with, instead of a known and a fresh one.
pub const SEED: &str = "CARILLON_FUZZ_SEED";

/// Inputs of the seed that is the same in each run, and of the fresh one.
const INPUTS: u64 = 2000;
/// Bytes a reader may hold at once: so many, and so many for each byte it was given. `{"":1}` takes a
/// hundred times its text as values, and `l,` in YAML four hundred times, when an alias may stand for it.
const FREE: u64 = 1 << 20;
const EACH: u64 = 1024;
/// What a reader may take, on a machine that does something else beside it.
const SLOW: Duration = Duration::from_secs(2);
/// Bytes of an input that are shown.
const SHOWN: usize = 400;

/// Tries a reader.
///
/// # Panics
/// With seed and input, when the reader panics, or takes too much memory or time.
pub fn check(name: &str, samples: &[&[u8]], reader: impl Fn(&[u8])) {
    check_within(FREE, name, samples, reader);
}

/// Tries a reader that may hold so many bytes besides what goes by its input.
///
/// # Panics
/// As [`check`].
pub fn check_within(free: u64, name: &str, samples: &[&[u8]], reader: impl Fn(&[u8])) {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let fresh = || Rng::new().u64(..);
    if let Some(seconds) = number(SECONDS) {
        let end = Instant::now() + Duration::from_secs(seconds);
        let seed = number(SEED).unwrap_or_else(fresh);
        println!("{name}: seed {seed}");
        let inputs = run(free, name, samples, &reader, seed, |_| Instant::now() < end);
        println!("{name}: {inputs} inputs");
        return;
    }
    let seeds = number(SEED).map_or_else(|| vec![0, fresh()], |seed| vec![seed]);
    for seed in seeds {
        println!("{name}: seed {seed}");
        run(free, name, samples, &reader, seed, |done| done < INPUTS);
    }
}

/// How many inputs of a seed were tried.
fn run(
    free: u64,
    name: &str,
    samples: &[&[u8]],
    reader: &impl Fn(&[u8]),
    seed: u64,
    goes_on: impl Fn(u64) -> bool,
) -> u64 {
    let mut rng = Rng::with_seed(seed);
    let mut done = 0;
    for sample in samples {
        judge(free, name, sample, reader, seed);
    }
    while goes_on(done) {
        let input = mutate::input(samples, &mut rng);
        judge(free, name, &input, reader, seed);
        done += 1;
    }
    done
}

fn judge(free: u64, name: &str, input: &[u8], reader: &impl Fn(&[u8]), seed: u64) {
    let failed = |why: &str| -> ! {
        panic!(
            "{name}: {why}\nseed {seed}: cargo xtask fuzz --target {name} --seed {seed}\n{} bytes: {}",
            input.len(),
            shown(input)
        )
    };
    let limit = free + EACH * input.len() as u64;
    // What a machine does beside it may be slow once, and what is made once may be large.
    let mut why = String::new();
    for _ in 0..3 {
        let begin = Instant::now();
        let mut outcome = Ok(());
        let memory = allocation_counter::measure(|| {
            outcome = catch_unwind(AssertUnwindSafe(|| reader(input)));
        });
        let took = begin.elapsed();
        if outcome.is_err() {
            failed("it panicked, as said above");
        }
        why = if memory.bytes_max > limit {
            let bytes = memory.bytes_max;
            format!("it held {bytes} bytes where {limit} are allowed")
        } else if took > SLOW {
            format!("it took {took:?}")
        } else {
            return;
        };
    }
    failed(&why);
}

/// The beginning of an input, as a literal.
fn shown(input: &[u8]) -> String {
    let (begin, rest) = input.split_at(input.len().min(SHOWN));
    let mut text = format!("b\"{}\"", begin.escape_ascii());
    if !rest.is_empty() {
        let _ = write!(text, " and {} more", rest.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(reader: impl Fn(&[u8])) -> Option<String> {
        let tried = || {
            run(FREE, "reader", &[b"{\"a\":1}"], &reader, 7, |done| {
                done < 500
            })
        };
        let error = catch_unwind(AssertUnwindSafe(tried)).err()?;
        error.downcast_ref::<String>().cloned()
    }

    #[test]
    fn a_reader_that_panics_or_is_greedy_is_found_with_its_input() {
        assert_eq!(found(|_| {}), None);
        let panics = found(|input| assert!(!input.contains(&0xff))).unwrap();
        assert!(
            panics.contains("it panicked") && panics.contains("--seed 7"),
            "{panics}"
        );
        let greedy = found(|input| drop(vec![0_u8; input.len() * 1100 + (1 << 20)])).unwrap();
        assert!(greedy.contains("it held"), "{greedy}");
    }

    #[test]
    fn inputs_of_a_seed_are_the_same_each_time() {
        let inputs = |seed| {
            let mut rng = Rng::with_seed(seed);
            [(); 50].map(|()| mutate::input(&[b"sample", b"another"], &mut rng))
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
    }
}
