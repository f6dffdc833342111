//! Judges a recorded run: `judge WATCH AUDIT [over] [LAG-SECONDS]`.
//!
//! WATCH holds what etcd answered to `POST /v3/watch` with [`etcd::WATCH`] as its body, AUDIT the API
//! server's audit log. `over` says that the run has ended and nothing more happens.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;
use std::time::Instant;

use carillon_oracle::{Assumptions, audit, check_all, etcd};
use jiff::SignedDuration;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [watch, log, rest @ ..] = args.as_slice() else {
        return Err("usage: judge WATCH AUDIT [over] [LAG-SECONDS]".into());
    };
    let mut reader = etcd::Reader::default();
    for line in BufReader::new(File::open(watch)?).split(b'\n') {
        // A recorder that is stopped leaves half a line.
        if let Err(error) = reader.line(&String::from_utf8_lossy(&line?)) {
            eprintln!("{error}");
        }
    }
    println!(
        "up to revision {}, {} entries that are no objects",
        reader.revision(),
        reader.unreadable()
    );
    let mut history = reader.history();
    let lines = BufReader::new(File::open(log)?).lines();
    let writes: Vec<_> = lines
        .map_while(Result::ok)
        .filter_map(|line| audit::read(&line))
        .collect();
    println!("{:?}", audit::attribute(&mut history, &writes));
    let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
    for step in history.steps.iter().filter(|step| step.by.is_none()) {
        *unknown.entry(&step.key.resource).or_default() += 1;
    }
    println!("not attributed: {unknown:?}");
    let assumptions = Assumptions {
        over: rest.iter().any(|arg| arg == "over"),
        lag: SignedDuration::from_secs(rest.iter().find_map(|arg| arg.parse().ok()).unwrap_or(0)),
        ..Assumptions::default()
    };
    let begin = Instant::now();
    let report = check_all(&history, &assumptions);
    println!(
        "{report}\njudged {} steps in {:.1?}",
        history.steps.len(),
        begin.elapsed()
    );
    Ok(ExitCode::from(u8::from(report.violations().count() > 0)))
}
