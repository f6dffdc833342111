//! A run on request: what the annotation of a CronJob asks for.

use carillon_api::names::ANNOTATION_RUN_NOW;

use super::spec::CronJob;
use crate::printable::one_line;
use crate::uid::Uid;

/// Characters a word has at most: as many as the value of a label.
const LONGEST: usize = 63;
/// Of a value that cannot be read, so much is shown.
const SHOWN: usize = 64;

/// What the annotation asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Asked<'a> {
    /// Nothing: there is none, or it is about another CronJob.
    Nothing,
    /// A run for this word.
    Run(&'a str),
    /// It cannot be read. What was found, and what to write.
    Unreadable(String),
}

impl CronJob {
    /// What the annotation `carillon.dev/run-now` asks for. It names this very object: one that was copied,
    /// made anew or restored from a backup has another uid.
    pub fn asked(&self) -> Asked<'_> {
        let value = self.run_now.as_deref().unwrap_or_default();
        if value.is_empty() {
            return Asked::Nothing;
        }
        let parts = value
            .split_once('/')
            .and_then(|(uid, word)| Some((uid.parse::<Uid>().ok()?, word)));
        match parts {
            _ if self.is_native() => Asked::Unreadable(of_batch(&self.meta.owner.name)),
            Some((uid, word)) if is_word(word) => {
                if uid == self.meta.owner.uid {
                    Asked::Run(word)
                } else {
                    Asked::Nothing
                }
            }
            _ => Asked::Unreadable(self.unreadable(value)),
        }
    }

    /// The value of the annotation that asks for a run with this word.
    pub fn asks_with(&self, word: &str) -> String {
        format!("{}/{word}", self.meta.owner.uid)
    }

    fn unreadable(&self, value: &str) -> String {
        let end = value.floor_char_boundary(SHOWN);
        let more = if end < value.len() { "…" } else { "" };
        let found = one_line(&value[..end]);
        format!(
            "{ANNOTATION_RUN_NOW} is \"{found}{more}\" and asks for nothing; write {}: the uid of this \
             CronJob and a new word of up to {LONGEST} letters, digits and characters of \"-_.:+\"",
            self.asks_with("WORD")
        )
    }
}

/// A CronJob of batch/v1 is run by hand as ever.
fn of_batch(name: &str) -> String {
    format!(
        "{ANNOTATION_RUN_NOW} means nothing on a CronJob of batch/v1; write kubectl create job \
         --from=cronjob/{name} NAME"
    )
}

fn is_word(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte);
    (1..=LONGEST).contains(&word.len()) && word.bytes().all(allowed)
}
