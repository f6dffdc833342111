//! What is kept between plans, and how a snapshot is made with it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use carillon_plan::Uid;
use carillon_plan::condition::Refusal;
use carillon_plan::cron_job::{Children, CronJob, REFUSALS, Refused, Snapshot, Template};
use serde::{Deserialize, Serialize};

use super::performer::Answer;
use crate::store::Tables;

/// How long answers about single runs are kept. Then they are asked for again, if they still matter:
/// what had a run's name may be gone.
const KEPT: Duration = Duration::from_mins(1);

/// Answers of the API server that a plan needs. Losing them costs a question, never a decision.
#[derive(Debug, Default)]
pub struct Memory {
    generation: i64,
    template: Template,
    gone: BTreeSet<Uid>,
    absent: BTreeSet<String>,
    conflicts: BTreeSet<String>,
    /// When the first of these three was learnt.
    since: Option<Instant>,
    /// What else is refused again and again.
    pub(super) refusal: Option<Refusal>,
}

/// The snapshot of a CronJob, from the caches and what is remembered.
pub(super) fn snapshot<T>(
    tables: &Tables,
    cron: &CronJob,
    memory: &Memory,
    look: impl FnOnce(&Snapshot<'_>) -> T,
) -> T {
    let none = Children::default();
    look(&Snapshot {
        cron,
        children: tables.cron_jobs.children(&cron.meta.owner).unwrap_or(&none),
        gone: &memory.gone,
        absent: &memory.absent,
        conflicts: &memory.conflicts,
        template: &memory.template,
        refusal: memory.refusal.as_ref(),
    })
}

impl Memory {
    /// Forgets what was learnt of another template, and what was learnt of single runs long ago.
    pub(super) fn follow(&mut self, generation: i64, now: Instant) {
        if self.generation != generation {
            self.generation = generation;
            self.template = Template::Unknown;
        }
        let old = |since: &mut Instant| now.saturating_duration_since(*since) >= KEPT;
        if self.since.take_if(old).is_some() {
            self.gone.clear();
            self.absent.clear();
            self.conflicts.clear();
        }
    }

    /// Learns an answer. True when the next plan should come at once.
    pub(super) fn learn(&mut self, answer: Answer, now: Instant) -> bool {
        if matches!(
            answer,
            Answer::Gone(_) | Answer::Absent(_) | Answer::NameConflict(_)
        ) {
            self.since.get_or_insert(now);
        }
        match answer {
            Answer::Template(template) => {
                let new = self.template != template;
                self.template = template;
                new
            }
            Answer::Gone(uid) => self.gone.insert(uid),
            Answer::Absent(name) => self.absent.insert(name),
            Answer::NameConflict(name) => self.conflicts.insert(name),
            Answer::Created(..) => {
                self.template = Template::Accepted;
                false
            }
        }
    }

    /// Before a creation is tried: what was not there may be there soon.
    pub(super) fn begin(&mut self, name: &str) {
        self.absent.remove(name);
    }

    /// What goes into the flight recorder besides the versions of the objects.
    pub(super) fn inputs(&self) -> Inputs {
        Inputs {
            template: match &self.template {
                Template::Unknown => TemplateAnswer::Unknown,
                Template::Accepted => TemplateAnswer::Accepted,
                Template::Refused(refused) => TemplateAnswer::Refused {
                    reason: refused.reason.to_owned(),
                    message: refused.message.clone(),
                },
            },
            gone: self.gone.iter().map(Uid::to_string).collect(),
            absent: self.absent.clone(),
            conflicts: self.conflicts.clone(),
            refusal: self.refusal.as_ref().map(|refusal| refusal.0.clone()),
        }
    }

    /// The memory that was written down. The error names what cannot be read.
    pub(super) fn recorded(inputs: &Inputs, generation: i64) -> Result<Self, String> {
        let uid = |text: &String| text.parse::<Uid>().map_err(|error| error.to_string());
        Ok(Self {
            generation,
            template: match &inputs.template {
                TemplateAnswer::Unknown => Template::Unknown,
                TemplateAnswer::Accepted => Template::Accepted,
                TemplateAnswer::Refused { reason, message } => Template::Refused(Refused {
                    reason: REFUSALS
                        .into_iter()
                        .find(|known| known == reason)
                        .ok_or_else(|| format!("unknown reason {reason:?}"))?,
                    message: message.clone(),
                }),
            },
            gone: inputs.gone.iter().map(uid).collect::<Result<_, _>>()?,
            absent: inputs.absent.clone(),
            conflicts: inputs.conflicts.clone(),
            refusal: inputs.refusal.clone().map(Refusal),
            since: None,
        })
    }
}

/// What a plan is made from besides the objects, as the flight recorder keeps it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Inputs {
    template: TemplateAnswer,
    gone: Vec<String>,
    absent: BTreeSet<String>,
    conflicts: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
}

/// What the API server said of such children.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(tag = "answer")]
enum TemplateAnswer {
    #[default]
    Unknown,
    Accepted,
    Refused {
        reason: String,
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_somebody_elses_is_asked_for_again_after_a_minute() {
        let (mut memory, begin) = (Memory::default(), Instant::now());
        for n in 0..3 {
            let conflict = Answer::NameConflict(format!("report-{n}"));
            assert!(memory.learn(conflict, begin + KEPT * n / 4));
        }
        memory.follow(0, begin + KEPT / 2);
        assert_eq!(memory.conflicts.len(), 3);
        memory.follow(0, begin + KEPT);
        assert!(memory.conflicts.is_empty());
        memory.learn(Answer::Gone(Uid::MAX), begin + KEPT);
        memory.follow(0, begin + KEPT * 3 / 2);
        assert_eq!(memory.gone.len(), 1);
    }
}
