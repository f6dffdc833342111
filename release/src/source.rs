//! What is built: a commit, and the time that goes into what is made of it.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use carillon_testbed::answer;
use carillon_testbed::carillon::workspace;
use jiff::Timestamp;

/// Seconds since 1970, by the convention of reproducible builds. Wins over the time of the commit.
const TIME: &str = "SOURCE_DATE_EPOCH";

/// Asks git what is not as in the commit, whatever somebody has told it to show.
const CHANGES: [&str; 3] = ["status", "--porcelain", "--untracked-files=all"];

/// A commit.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its id; with `-dirty` when files have changed since.
    pub(crate) revision: String,
    /// When it was made.
    pub(crate) time: Timestamp,
}

impl Source {
    /// What is checked out.
    pub(crate) fn read() -> Result<Self> {
        let revision = git(&["rev-parse", "HEAD"]);
        let set = env::var(TIME).ok().filter(|set| !set.is_empty());
        let seconds = match (&set, &revision) {
            (Some(set), _) => set.clone(),
            (None, Ok(_)) => git(&["log", "-1", "--format=%ct"])?,
            (None, Err(error)) => bail!(
                "the time of the build is that of the commit, and git does not tell it: {error:#}. Set {TIME} to \
                 seconds since 1970"
            ),
        };
        let second = seconds.parse().ok();
        let time = second.and_then(|second| Timestamp::from_second(second).ok());
        let revision = match revision {
            Err(_) => "unknown".to_owned(),
            Ok(revision) if git(&CHANGES)?.is_empty() => revision,
            Ok(revision) => format!("{revision}-dirty"),
        };
        Ok(Self {
            revision,
            time: time
                .with_context(|| format!("{TIME} is {seconds:?}; expected seconds since 1970"))?,
        })
    }

    #[cfg(test)]
    pub(crate) fn of_test() -> Self {
        Self {
            revision: "abc".to_owned(),
            time: Timestamp::UNIX_EPOCH,
        }
    }

    /// Seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        self.time.as_second().unsigned_abs()
    }
}

/// The files of the commit below a directory of the workspace, by name. Others may lie beside them, which git was told
/// to ignore.
pub(crate) fn files(dir: &str) -> Result<Vec<String>> {
    let listed = git(&["ls-files", "-z", "--", dir])?;
    let mut files: Vec<String> = listed.split_terminator('\0').map(str::to_owned).collect();
    files.sort();
    ensure!(!files.is_empty(), "git knows no file below {dir}");
    Ok(files)
}

/// What git says of the workspace.
pub(crate) fn git(args: &[&str]) -> Result<String> {
    answer(Command::new("git").args(args).current_dir(workspace()))
}
