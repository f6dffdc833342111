//! What is kept between plans, and how a snapshot is made with it.

use std::collections::BTreeSet;

use carillon_plan::Uid;
use carillon_plan::cron_job::{Children, CronJob, REFUSALS, Refused, Snapshot, Template};
use serde::{Deserialize, Serialize};

use crate::apply::cron_job::Answer;
use crate::store::Tables;

/// Answers of the API server that a plan needs. Losing them costs a question, never a decision.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    generation: i64,
    template: Template,
    gone: BTreeSet<Uid>,
    absent: BTreeSet<String>,
    conflicts: BTreeSet<String>,
}

/// The snapshot of a CronJob, from the caches and what is remembered.
pub(super) fn snapshot<T>(
    tables: &Tables,
    cron: &CronJob,
    memory: &Memory,
    look: impl FnOnce(&Snapshot<'_>) -> T,
) -> T {
    let none = Children::default();
    let family = tables.family(cron.meta.owner.uid);
    look(&Snapshot {
        cron,
        children: family.map_or(&none, |family| &family.children),
        gone: &memory.gone,
        absent: &memory.absent,
        conflicts: &memory.conflicts,
        template: &memory.template,
    })
}

impl Memory {
    /// What is remembered of this generation: another template is another question.
    pub(super) fn at(mut self, generation: i64) -> Self {
        if self.generation != generation {
            self.generation = generation;
            self.template = Template::Unknown;
        }
        self
    }

    /// Learns an answer. True when the next plan should come at once.
    pub(super) fn learn(&mut self, answer: Answer) -> bool {
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
        })
    }
}

/// What a plan is made from besides the objects, as the flight recorder keeps it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Inputs {
    template: TemplateAnswer,
    gone: Vec<String>,
    absent: BTreeSet<String>,
    conflicts: BTreeSet<String>,
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
