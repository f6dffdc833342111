//! What is kept between plans, and how a snapshot is made with it.

use std::collections::BTreeSet;

use carillon_plan::Uid;
use carillon_plan::cron_job::{Children, CronJob, Snapshot, Template};
use serde_json::{Value, json};

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
    pub(super) fn inputs(&self) -> Value {
        let template = match &self.template {
            Template::Unknown => json!("Unknown"),
            Template::Accepted => json!("Accepted"),
            Template::Refused(refused) => {
                json!({"reason": refused.reason, "message": refused.message})
            }
        };
        let gone: Vec<String> = self.gone.iter().map(Uid::to_string).collect();
        json!({
            "template": template, "gone": gone,
            "absent": self.absent, "conflicts": self.conflicts,
        })
    }
}
