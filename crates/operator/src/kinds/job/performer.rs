//! What a plan for a Job does.

use carillon_plan::job::Job;
use carillon_plan::job::action::{Action, NewPod, Note, StatusWrite};
use carillon_plan::job::backoff::BackoffRecord;
use carillon_plan::job::pod_body::pod_body;
use carillon_plan::{Act, Uid};
use k8s_openapi::api::batch::v1::JobStatus;
use serde_json::Value;

use super::metrics::JobMetrics;
use super::requests;
use crate::apply::template::{Creation, Place, Template};
use crate::apply::{
    Earlier, Effect, Perform, Settled, found, is_taken, made_before, may_be_there, pod_note,
    release, settled, unchanged, write, written,
};
use crate::gate::Kind;
use crate::lease::BootTime;
use crate::request::Call;
use crate::request::{self, CreateMode};
use crate::slim::Written;
use crate::writes::{SendError, Turn, Writes};

/// What the API server has answered.
#[derive(Debug)]
pub enum Answer {
    /// The status was written, and this is what is to be remembered with it.
    Written(BackoffRecord),
    /// A pod was created, and named by the API server.
    Named(String),
    /// It is not known whether a pod of this name was created.
    Unanswered(String),
    /// There is none, and will be none.
    Answered(String),
}

type Done = crate::apply::Done<Answer>;

/// Carries out plans for one Job.
pub struct Performer<'a> {
    /// The Job.
    pub job: &'a Job,
    /// Its template.
    pub template: Template<'a>,
    /// Whether it shows the oddities of kube-controller-manager: names of pods are random, and may be
    /// two for one pod that was wanted.
    pub strict: bool,
    /// The way of every write.
    pub writes: &'a Writes,
    /// What is counted of it.
    pub metrics: &'a JobMetrics,
    /// When the plan is too old for creations.
    pub not_after: BootTime,
}

impl Perform for Performer<'_> {
    type Action = Action;
    type Answer = Answer;

    async fn perform(&self, action: &Action, earlier: Earlier) -> Result<Done, SendError> {
        let owner = &self.job.meta.owner;
        match action {
            Action::ConfirmCurrent => {
                let request = request::get(Kind::NativeJob, &owner.namespace, &owner.name);
                let job = found(self.writes, request).await?;
                let job = job.filter(|job| job.uid() == Some(owner.uid));
                unchanged(job, self.job.meta.rv)?;
                Ok(Effect::Nothing.done())
            }
            Action::ConfirmAbsent { name } => {
                let request = request::get(Kind::Pod, &owner.namespace, name);
                let pod = found(self.writes, request).await?;
                let pod = pod.filter(|pod| pod.is_controlled_by(owner));
                // One that is there keeps its place until it is seen.
                Ok(match pod {
                    Some(pod) => Effect::Seen(Kind::Pod, pod.rv()).done(),
                    None => Effect::Nothing.and(Answer::Answered(name.clone())),
                })
            }
            Action::AdoptPod { name, uid } => {
                self.patch(requests::adopt_pod(owner, name, *uid)).await
            }
            Action::DisownPod { name, uid } => {
                self.patch(requests::disown_pod(owner, name, *uid)).await
            }
            Action::CreatePod(pod) => {
                let created = self.create_pod(pod).await;
                if created.is_ok() || self.strict {
                    self.metrics.created(pod.why, true);
                }
                if created.is_err() {
                    self.metrics.created(pod.why, false);
                }
                created
            }
            Action::RemovePod { name, uid, tracked } => {
                if *tracked {
                    let released = self.release(name, *uid).await?;
                    if matches!(released, Effect::Gone | Effect::InVain) {
                        return Ok(released.done());
                    }
                }
                self.delete(name, *uid).await
            }
            Action::StopPod { name, uid } => self.delete(name, *uid).await,
            Action::ReleasePod { name, uid, handled } => {
                let effect = self.release(name, *uid).await?;
                self.metrics.released(*handled);
                Ok(effect.done())
            }
            Action::WriteStatus(write) => self.write_status(write, earlier).await,
            Action::DeleteJob => {
                let request = requests::delete_job(owner);
                let reply = settled(write(self.writes, request, None).await)?;
                if matches!(reply, Settled::Done(_)) {
                    self.metrics.expired(self.job, self.writes.clock().now());
                }
                let effect = |job: Written| Effect::Deleted(Kind::NativeJob, job.rv());
                Ok(reply.effect(effect).done())
            }
        }
    }

    fn failed(&self, action: &Action, error: &SendError) -> Option<Answer> {
        match action {
            Action::CreatePod(pod) if !self.strict && may_be_there(error) && !is_taken(error) => {
                Some(Answer::Unanswered(pod.name.clone()))
            }
            _ => None,
        }
    }

    fn note(&self, action: &Action, result: &Result<Done, SendError>) -> Option<Note> {
        let creates = match action {
            Action::CreatePod(_) => true,
            Action::RemovePod { .. } | Action::StopPod { .. } => false,
            _ => return None,
        };
        let pod = action.object()?;
        let pod = match result {
            Ok(Done {
                answer: Some(Answer::Named(name)),
                ..
            }) => name,
            _ => &pod,
        };
        pod_note(creates, pod, result.as_ref().map(|done| done.effect))
    }

    fn went_through(&self) -> Option<Answer> {
        None
    }
}

/// Where the template of a Job is stored.
pub(super) fn place(job: &Job) -> Place<'_> {
    Place {
        kind: Kind::NativeJob,
        owner: &job.meta.owner,
        generation: job.meta.generation,
        field: "template",
    }
}

impl Performer<'_> {
    async fn create_pod(&self, pod: &NewPod) -> Result<Done, SendError> {
        let owner = &self.job.meta.owner;
        let turn = self.writes.turn(&owner.namespace).await?;
        let Creation { call, held } = self.creation(&turn, pod).await?;
        let reply = written(turn.send(call, Some(self.not_after)).await);
        drop((turn, held));
        let error = match reply {
            Ok(meta) => {
                let created = Effect::Created(Kind::Pod, meta.rv());
                return Ok(if self.strict {
                    created.and(Answer::Named(meta.name))
                } else {
                    created.done()
                });
            }
            Err(error) => error,
        };
        if self.strict {
            return Err(error);
        }
        let pod = (&**owner, Kind::Pod, pod.name.as_str());
        Ok(made_before(self.writes, pod, error).await?.done())
    }

    async fn creation(&self, turn: &Turn<'_>, pod: &NewPod) -> Result<Creation, SendError> {
        let write = |template: &Value| {
            let mut body = pod_body(self.job, template, pod);
            if self.strict
                && let Some(metadata) = body.metadata.as_object_mut()
            {
                metadata.remove("name");
            }
            let namespace = &self.job.meta.owner.namespace;
            request::create(Kind::Pod, namespace, &body, CreateMode::Plain)
        };
        self.template.creation(turn, write).await
    }

    async fn delete(&self, name: &str, uid: Uid) -> Result<Done, SendError> {
        let namespace = &self.job.meta.owner.namespace;
        let request = request::delete(Kind::Pod, namespace, name, uid);
        let reply = settled(write(self.writes, request, None).await)?;
        let effect = |pod: Written| Effect::Deleted(Kind::Pod, pod.rv());
        Ok(reply.effect(effect).done())
    }

    async fn patch(&self, request: Call) -> Result<Done, SendError> {
        let reply = settled(write(self.writes, request, None).await)?;
        let effect = |pod: Written| Effect::Wrote(Kind::Pod, pod.rv());
        Ok(reply.effect(effect).done())
    }

    async fn release(&self, name: &str, uid: Uid) -> Result<Effect, SendError> {
        let request = requests::release_pod(&self.job.meta.owner.namespace, name, uid);
        release(self.writes, Kind::Pod, request).await
    }

    async fn write_status(
        &self,
        planned: &StatusWrite,
        earlier: Earlier,
    ) -> Result<Done, SendError> {
        let kind = Kind::NativeJob;
        let meta = &self.job.meta;
        let answer = Answer::Written(planned.backoff);
        let old = serde_json::to_value(&self.job.status).unwrap_or_default();
        let settled = settle(planned, earlier);
        let new = serde_json::to_value(&settled).unwrap_or_default();
        if old == new {
            return Ok(Effect::Nothing.and(answer));
        }
        let request = request::write_status(kind, &meta.owner, meta.rv, &old, new);
        let written = write(self.writes, request, None).await?;
        self.metrics.counted(self.job, &settled);
        Ok(Effect::Wrote(kind, written.rv()).and(answer))
    }
}

/// The status as it is after what earlier steps really did. The API server refuses one that has more
/// pods ready than active.
fn settle(planned: &StatusWrite, earlier: Earlier) -> JobStatus {
    let missing = |planned: i32, done: usize| (planned - done as i32).max(0);
    let mut status = planned.status.clone();
    let added = missing(planned.removed, earlier.removed);
    let active = status.active.unwrap_or(0) + added - missing(planned.created, earlier.created);
    let active = active.max(0);
    if active != status.active.unwrap_or(0) {
        status.active = Some(active);
    }
    // What was not deleted does not stop.
    status.terminating = status.terminating.map(|count| (count - added).max(0));
    status.ready = status.ready.map(|ready| ready.min(active));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(active: i32, ready: i32, created: i32, removed: i32) -> StatusWrite {
        StatusWrite {
            status: JobStatus {
                active: Some(active),
                ready: Some(ready),
                terminating: Some(removed + 1),
                ..JobStatus::default()
            },
            created,
            removed,
            backoff: BackoffRecord::default(),
        }
    }

    #[test]
    fn active_counts_what_earlier_steps_really_did() {
        for (planned, earlier, active, ready) in [
            (planned(5, 2, 3, 0), (3, 0), 5, 2),
            (planned(5, 2, 3, 0), (1, 0), 3, 2),
            (planned(3, 3, 3, 0), (0, 0), 0, 0),
            (planned(2, 2, 0, 3), (0, 1), 4, 2),
            (planned(2, 2, 0, 0), (0, 3), 2, 2),
        ] {
            let (created, removed) = earlier;
            let status = settle(&planned, Earlier { created, removed });
            assert_eq!((status.active, status.ready), (Some(active), Some(ready)));
        }
    }

    #[test]
    fn a_pod_that_could_not_be_deleted_does_not_terminate() {
        for (deleted, terminating) in [(3, 4), (1, 2), (0, 1)] {
            let earlier = Earlier {
                created: 0,
                removed: deleted,
            };
            let status = settle(&planned(2, 0, 0, 3), earlier);
            assert_eq!(status.terminating, Some(terminating), "{deleted}");
        }
    }
}
