//! The only writer: carries out the steps of a plan, in order.

use std::time::Duration;

use carillon_plan::Uid;
use carillon_plan::action::{Action, OnError, Plan, Step};
use carillon_plan::broadcast_job::{Job, Refused, Template, settle};
use carillon_plan::pod_body::{PodPlacement, pod_body};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::Deserialize;

use carillon_api::condition::reasons;

use crate::fence::NotSent;
use crate::gate::Kind;
use crate::lease::BootTime;
use crate::request;
use crate::slim::SlimMeta;
use crate::writes::{SendError, Writes, decode};

/// A plan's creations are not sent later than this after it was made, whatever held them up: a
/// process that was stopped meanwhile must not act on what it knew then.
const PLAN_LIFE: Duration = Duration::from_secs(10);

/// What a plan did.
#[derive(Debug, Default)]
pub struct Applied {
    /// Pods created.
    pub created: usize,
    /// Pods deleted.
    pub deleted: usize,
    /// Pods released.
    pub released: usize,
    /// Writes of any kind that succeeded.
    pub writes: usize,
    /// The highest version written of each kind.
    pub versions: Vec<(Kind, u64)>,
    /// Answers of the API server that the next plan needs.
    pub answers: Vec<Answer>,
    /// The first thing that failed, and which action it was.
    pub failed: Option<(&'static str, SendError)>,
    /// A step that the later ones rely on failed, so that those were not tried.
    pub stopped: bool,
    /// The plan grew too old before all of it was sent.
    pub expired: bool,
    /// The plan was made from a state that is no longer the current one.
    pub conflict: bool,
}

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// What became of the dry run.
    Template(Template),
    /// This pod is gone.
    Gone(Uid),
    /// A pod of this name belongs to somebody else.
    NameConflict(Box<str>),
    /// Creations were refused, and why.
    CreationRefused(Refused),
    /// Creations went through.
    CreationAccepted,
}

/// What apply needs besides the plan.
#[derive(Clone, Copy, Debug)]
pub struct Means<'a> {
    /// The way of every write.
    pub writes: &'a Writes,
    /// How pods get to their node.
    pub placement: PodPlacement,
    /// Actions of one step that run side by side.
    pub parallel: usize,
}

/// Carries out `plan` for `job`.
pub async fn apply(means: Means<'_>, job: &Job, plan: Plan, now: Timestamp) -> Applied {
    let not_after = means.writes.clock().boot().after(PLAN_LIFE);
    let mut applied = Applied::default();
    for step in plan.steps {
        let run = Run {
            means,
            job,
            not_after,
            now,
            created: applied.created,
        };
        let ok = run.step(step, &mut applied).await;
        if !ok {
            applied.stopped = true;
            break;
        }
    }
    applied
}

#[derive(Clone, Copy)]
struct Run<'a> {
    means: Means<'a>,
    job: &'a Job,
    not_after: BootTime,
    now: Timestamp,
    created: usize,
}

/// What one action did.
#[derive(Debug)]
enum Done {
    Wrote(Kind, u64),
    Created(u64),
    Deleted(u64),
    Released(u64),
    Answered(Answer),
    /// Nothing was left to do, or the object has changed and will be judged again.
    Nothing,
}

impl Run<'_> {
    /// Whether the later steps may follow.
    async fn step(self, step: Step, applied: &mut Applied) -> bool {
        let mut size = if step.slow_start {
            1
        } else {
            step.actions.len()
        };
        let mut actions = step.actions.into_iter().peekable();
        while actions.peek().is_some() {
            let batch: Vec<Action> = actions.by_ref().take(size).collect();
            let results: Vec<_> = stream::iter(batch)
                .map(|action| async move { (action.word(), self.one(action).await) })
                .buffer_unordered(self.means.parallel)
                .collect()
                .await;
            let mut failed = false;
            for (word, result) in results {
                match result {
                    Ok(done) => applied.note(done),
                    Err(error) => {
                        failed = true;
                        applied.fail(word, error);
                    }
                }
            }
            if failed {
                return step.on_error == OnError::GoOn;
            }
            size *= 2;
        }
        if step.slow_start {
            applied.answers.push(Answer::CreationAccepted);
        }
        true
    }

    async fn one(self, action: Action) -> Result<Done, SendError> {
        let namespace = &*self.job.owner.namespace;
        match action {
            Action::CheckTemplate { node, pod } => self.check_template(&node, &pod).await,
            Action::ConfirmGone { pod, uid } => {
                let found = found(self.means.writes, request::get_pod(namespace, &pod)).await?;
                Ok(match found {
                    Some(meta) if meta.uid() == Some(uid) => Done::Nothing,
                    _ => Done::Answered(Answer::Gone(uid)),
                })
            }
            Action::WriteSlice(slice) => {
                let request = request::write_slice(&self.job.owner, &slice);
                Ok(Done::Wrote(
                    Kind::Slice,
                    self.write(request, None).await?.rv(),
                ))
            }
            Action::CreatePod { pod, node } => self.create_pod(&pod, &node).await,
            Action::DeletePod { pod, uid, rv } => {
                let request = request::delete_pod(namespace, &pod, uid, rv);
                settled(self.write(request, None).await).map(|meta| {
                    // The pod has changed or is gone; the event of that brings the next plan.
                    meta.map_or(Done::Nothing, |meta| Done::Deleted(meta.rv()))
                })
            }
            Action::ReleasePod { pod, uid } => {
                let request = request::release_pod(namespace, &pod, uid);
                settled(self.write(request, None).await)
                    .map(|meta| meta.map_or(Done::Nothing, |meta| Done::Released(meta.rv())))
            }
            Action::WriteStatus(mut status) => {
                settle(&mut status, self.created);
                let old = serde_json::to_value(&self.job.status).unwrap_or_default();
                let new = serde_json::to_value(&status).unwrap_or_default();
                if old == new {
                    return Ok(Done::Nothing);
                }
                let request = request::write_status(&self.job.owner, self.job.rv, &old, &new);
                Ok(Done::Wrote(
                    Kind::Job,
                    self.write(request, None).await?.rv(),
                ))
            }
            Action::DeleteJob => {
                let request = request::delete_job(&self.job.owner, self.job.rv);
                let reply = self.means.writes.send(request, None).await;
                settled(reply.map(|_| ())).map(|_| Done::Nothing)
            }
        }
    }

    async fn write(
        self,
        request: http::Request<Vec<u8>>,
        not_after: Option<BootTime>,
    ) -> Result<SlimMeta, SendError> {
        let reply = self.means.writes.send(request, not_after).await?;
        decode::<Envelope>(&reply).map(|envelope| envelope.metadata)
    }

    async fn create_pod(self, pod: &str, node: &str) -> Result<Done, SendError> {
        let owner = &self.job.owner;
        let body = pod_body(&self.job.template, owner, pod, node, self.means.placement);
        let request = request::create_pod(&owner.namespace, &body, false);
        let error = match self.write(request, Some(self.not_after)).await {
            Ok(meta) => return Ok(Done::Created(meta.rv())),
            Err(error) => error,
        };
        // The name may be taken by an earlier try of ours whose reply was lost.
        let doubtful = match &error {
            SendError::Refused(status) => status.reason == "AlreadyExists",
            SendError::Unknown(_) => true,
            SendError::NotSent(_) => false,
        };
        if !doubtful {
            return Err(error);
        }
        let found = found(self.means.writes, request::get_pod(&owner.namespace, pod)).await?;
        match found {
            Some(meta) if meta.broadcast_job() == Some(owner.uid) => {
                Ok(Done::Wrote(Kind::Pod, meta.rv()))
            }
            Some(_) => Ok(Done::Answered(Answer::NameConflict(pod.into()))),
            None => Err(error),
        }
    }

    /// Asks the API server about the template, without creating anything.
    async fn check_template(self, node: &str, pod: &str) -> Result<Done, SendError> {
        let owner = &self.job.owner;
        let body = pod_body(&self.job.template, owner, pod, node, self.means.placement);
        let request = request::create_pod(&owner.namespace, &body, true);
        let template = match self.means.writes.send(request, Some(self.not_after)).await {
            Ok(_) => Template::Accepted,
            Err(SendError::Refused(status)) => {
                let message = status.message.clone();
                let refused = |reason| Template::Refused {
                    problem: Refused {
                        reason,
                        message: printable(&message),
                    },
                    at: self.now,
                };
                match status.code {
                    // A full quota says nothing about the template.
                    403 if is_quota(&status.message) => Template::Accepted,
                    403 if !is_terminating(&status) => refused(reasons::POD_FORBIDDEN),
                    400 | 422 => refused(reasons::INVALID_TEMPLATE),
                    _ => return Err(SendError::Refused(status)),
                }
            }
            Err(error) => return Err(error),
        };
        Ok(Done::Answered(Answer::Template(template)))
    }
}

impl Applied {
    fn note(&mut self, done: Done) {
        let (kind, rv) = match done {
            Done::Answered(answer) => return self.answers.push(answer),
            Done::Nothing => return,
            Done::Wrote(kind, rv) => (kind, rv),
            Done::Created(rv) => {
                self.created += 1;
                (Kind::Pod, rv)
            }
            Done::Deleted(rv) => {
                self.deleted += 1;
                (Kind::Pod, rv)
            }
            Done::Released(rv) => {
                self.released += 1;
                (Kind::Pod, rv)
            }
        };
        self.writes += 1;
        self.versions.push((kind, rv));
    }

    fn fail(&mut self, word: &'static str, error: SendError) {
        if matches!(error, SendError::NotSent(NotSent::Expired)) {
            // Nothing is wrong but the server is slow: the rest is planned anew.
            self.expired = true;
            return;
        }
        self.conflict |= error.refused().is_some_and(|status| status.code == 409);
        if word == "create_pod" {
            self.answers
                .extend(refusal(&error).map(Answer::CreationRefused));
        }
        self.failed.get_or_insert((word, error));
    }
}

/// What a creation that did not succeed says about those to come.
fn refusal(error: &SendError) -> Option<Refused> {
    let (reason, message) = match error {
        SendError::Refused(status) if is_quota(&status.message) => {
            (reasons::QUOTA_EXCEEDED, status.message.clone())
        }
        SendError::Refused(status) => (reasons::POD_CREATION_FAILING, status.message.clone()),
        // As when an admission webhook does not answer.
        SendError::Unknown(_) => (reasons::POD_CREATION_FAILING, error.to_string()),
        SendError::NotSent(_) => return None,
    };
    Some(Refused {
        reason,
        message: printable(&message),
    })
}

/// Any object, of which only the metadata is read.
#[derive(Deserialize)]
struct Envelope {
    metadata: SlimMeta,
}

/// The object's metadata, or `None` when there is no such object.
pub async fn found(
    writes: &Writes,
    request: http::Request<Vec<u8>>,
) -> Result<Option<SlimMeta>, SendError> {
    match writes.read(request).await {
        Ok(reply) => decode::<Envelope>(&reply).map(|envelope| Some(envelope.metadata)),
        Err(error) if error.refused().is_some_and(|status| status.code == 404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A delete or release whose object is gone, has changed or is another one has nothing left to do.
pub fn settled<T>(result: Result<T, SendError>) -> Result<Option<T>, SendError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.refused().is_some_and(is_not_the_one) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A patch that names another uid is answered as one that would change it, with 422.
fn is_not_the_one(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let names_another = || {
        causes
            .into_iter()
            .any(|cause| cause.field == "metadata.uid")
    };
    matches!(status.code, 404 | 409) || status.code == 422 && names_another()
}

/// The API has no code of its own for a full quota; its admission plugin says it in words.
fn is_quota(message: &str) -> bool {
    message.contains("exceeded quota")
}

fn is_terminating(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

/// The API server repeats what users wrote.
fn printable(message: &str) -> String {
    carillon_plan::pod::printable(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> SendError {
        let mut status = kube::core::Status::failure(message, "");
        status.code = code;
        SendError::Refused(Box::new(status))
    }

    #[test]
    fn an_expired_plan_is_no_failure_that_the_job_has_to_wait_for() {
        let mut applied = Applied::default();
        applied.fail("create_pod", SendError::NotSent(NotSent::Expired));
        assert!(applied.expired && applied.failed.is_none());
    }

    #[test]
    fn a_full_quota_is_told_from_other_refusals_of_a_pod() {
        for (message, reason) in [
            (
                "pods \"p\" is forbidden: exceeded quota: q",
                reasons::QUOTA_EXCEEDED,
            ),
            ("denied the request: no", reasons::POD_CREATION_FAILING),
        ] {
            let mut applied = Applied::default();
            applied.fail("create_pod", refused(403, message));
            assert!(matches!(
                applied.answers.as_slice(),
                [Answer::CreationRefused(refused)] if refused.reason == reason
            ));
        }
    }

    #[test]
    fn an_object_that_is_gone_or_has_changed_leaves_nothing_to_delete() {
        for code in [404, 409] {
            assert!(settled::<()>(Err(refused(code, ""))).unwrap().is_none());
        }
        let another = serde_json::json!({
            "code": 422, "reason": "Invalid",
            "details": {"causes": [{"field": "metadata.uid", "reason": "FieldValueInvalid"}]},
        });
        let another: kube::core::Status = serde_json::from_value(another).unwrap();
        let another = SendError::Refused(Box::new(another));
        assert!(settled::<()>(Err(another)).unwrap().is_none());
        for code in [403, 422] {
            assert!(settled::<()>(Err(refused(code, ""))).is_err());
        }
    }
}
