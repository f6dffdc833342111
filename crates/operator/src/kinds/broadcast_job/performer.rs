//! What a plan for a BroadcastJob does.

use std::collections::BTreeSet;
use std::sync::Arc;

use carillon_api::condition::reasons;
use carillon_plan::broadcast_job::action::{Action, SliceWrite};
use carillon_plan::broadcast_job::{BroadcastJob, Refused, TakenPod, Template, settle};
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::pod::printable;
use carillon_plan::pod_body::{PodPlacement, pod_body};
use carillon_plan::{ObjectKey, Uid};
use jiff::Timestamp;
use serde_json::Value;

use super::confirmed::Confirmed;
use super::requests;
use crate::apply::template::Creation;
use crate::apply::{
    CHANGED, Earlier, Effect, NAME_TAKEN, Perform, absent, create, found, is_found_whole,
    is_of_one, is_quota, is_terminating, may_be_there, names_a_field, settled, template, uid_of,
    unchanged, write,
};
use crate::gate::Kind;
use crate::lease::BootTime;
use crate::request::{self, CreateMode, delete_unchanged};
use crate::slim::{Interner, SlimPod, Written};
use crate::writes::{SendError, Turn, Writes};

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// What became of the dry run.
    Template(Template),
    /// This pod is gone.
    Gone(Uid),
    /// This pod is there, and somebody has taken it from the job.
    Taken(Box<TakenPod>),
    /// This pod was to be told to stop, or to be released, and is other than before.
    Written(Uid),
    /// A pod of this name belongs to somebody else.
    NameConflict(Box<str>),
    /// The pod of this name is the job's, and has this uid.
    Created(Box<str>, Uid),
    /// This pod is other than as it was read: there is one, with this uid, or one has changed.
    Disputed(Box<str>, Option<Uid>),
    /// The creation of a pod did not succeed.
    CreationRefused(RefusedPod),
    /// Creations went through.
    CreationAccepted,
}

/// A pod whose creation did not succeed.
#[derive(Debug)]
pub struct RefusedPod {
    /// Its name.
    pub pod: Box<str>,
    /// Why.
    pub problem: Refused,
    /// What was said says nothing of other pods.
    pub of_one: bool,
}

type Done = crate::apply::Done<Answer>;

/// Carries out plans for one job.
#[derive(Debug)]
pub struct Performer<'a> {
    /// The job.
    pub job: &'a BroadcastJob,
    /// Its template.
    pub template: template::Template<'a>,
    /// The way of every write.
    pub writes: &'a Writes,
    /// How pods get to their node.
    pub placement: PodPlacement,
    /// When the plan is too old for creations.
    pub not_after: BootTime,
    /// When the plan was made.
    pub now: Timestamp,
    /// Pods that were taken from the job and of which no event tells.
    pub unwatched: BTreeSet<Uid>,
    /// Pods that the plan asks for and that are those of others of its family.
    pub of_relatives: BTreeSet<Uid>,
    /// What its creations rely on.
    pub relies_on: Confirmed<'a>,
}

impl Perform for Performer<'_> {
    type Action = Action;
    type Answer = Answer;

    async fn perform(&self, action: &Action, earlier: Earlier) -> Result<Done, SendError> {
        let namespace = &*self.job.meta.owner.namespace;
        match action {
            Action::CheckTemplate { pods } => self.check_template(pods).await,
            Action::ConfirmGone { pod, uid } => self.confirm_gone(pod, *uid).await,
            Action::ConfirmJob => {
                self.relies_on.ask_for_job().await?;
                Ok(Effect::Nothing.done())
            }
            Action::ConfirmSlice { index, rv } => {
                self.relies_on.ask_for_slice(*index, *rv).await?;
                Ok(Effect::Nothing.done())
            }
            Action::ConfirmPod { pod, seen } => {
                let pod = request::get(Kind::Pod, namespace, pod);
                let pod = found(self.writes, pod).await?;
                match seen {
                    Some((uid, rv)) => unchanged(pod.filter(|p| p.uid() == Some(*uid)), *rv)?,
                    None => absent(pod, &self.job.meta.owner)?,
                }
                Ok(Effect::Nothing.done())
            }
            Action::WriteSlice(slice) => {
                let rv = self.write_slice(&self.job.meta.owner, slice).await?;
                self.relies_on.slice_is(slice.index, rv).await;
                Ok(Effect::Wrote(Kind::Slice, rv).done())
            }
            Action::CreatePod { pod, node, slice } => self.create_pod(pod, node, *slice).await,
            Action::DeletePod { pod, uid, rv } => {
                let request = delete_unchanged(Kind::Pod, namespace, pod, *uid, *rv);
                // If the pod has changed or is gone, the event of that brings the next plan.
                let reply = settled(write(self.writes, request, None).await)?;
                let effect =
                    |pod: Written| Effect::Deleted(Kind::Pod, self.awaited(*uid, pod.rv()));
                Ok(reply.effect(effect).and(Answer::Written(*uid)))
            }
            Action::ReleasePod { pod, uid } => {
                let request = requests::release_pod(namespace, pod, *uid);
                let reply = settled(write(self.writes, request, None).await)?;
                let effect =
                    |pod: Written| Effect::Released(Kind::Pod, self.awaited(*uid, pod.rv()));
                Ok(reply.effect(effect).and(Answer::Written(*uid)))
            }
            Action::LabelPod { pod, uid } => {
                let request = requests::label_pod(&self.job.meta.owner, pod, *uid);
                let reply = settled(write(self.writes, request, None).await)?;
                let effect = |pod: Written| Effect::Wrote(Kind::Pod, pod.rv());
                Ok(reply.effect(effect).and(Answer::Written(*uid)))
            }
            Action::WriteStatus(status) => {
                let mut status = status.clone();
                settle(&mut status, earlier.created);
                let old = serde_json::to_value(&self.job.status).unwrap_or_default();
                let new = serde_json::to_value(&status).unwrap_or_default();
                if old == new {
                    return Ok(Effect::Nothing.done());
                }
                let request = request::write_status(
                    Kind::BroadcastJob,
                    &self.job.meta.owner,
                    self.job.meta.rv,
                    &old,
                    new,
                );
                Ok(Effect::Wrote(
                    Kind::BroadcastJob,
                    write(self.writes, request, None).await?.rv(),
                )
                .done())
            }
            Action::CloseLog { name, uid, write } => {
                let owner = ObjectKey::of(BROADCAST_JOB, namespace, &**name, *uid);
                let rv = self.write_slice(&owner, write).await?;
                Ok(Effect::Wrote(Kind::Slice, rv).done())
            }
            Action::JoinFamily {
                first,
                uid,
                rv,
                retries,
            } => {
                let namespace = &self.job.meta.owner.namespace;
                let request = requests::write_retries(namespace, first, *uid, *rv, retries);
                let version = write(self.writes, request, None).await?.rv();
                Ok(Effect::Wrote(Kind::BroadcastJob, version).done())
            }
            Action::DeleteJob => {
                let request = requests::delete_job(&self.job.meta.owner, self.job.meta.rv);
                let reply = settled(self.writes.send(request, None).await)?;
                Ok(reply.effect(|_| Effect::Nothing).done())
            }
        }
    }

    fn failed(&self, action: &Action, error: &SendError) -> Option<Answer> {
        if let Action::ConfirmPod { pod, .. } = action {
            return match error.refused()?.reason.as_str() {
                NAME_TAKEN => Some(Answer::NameConflict(pod.clone())),
                CHANGED => Some(Answer::Disputed(pod.clone(), uid_of(error))),
                _ => None,
            };
        }
        let Action::CreatePod { pod, .. } = action else {
            return None;
        };
        if error
            .refused()
            .is_some_and(|status| status.reason == CHANGED)
        {
            return None;
        }
        let mut problem = refusal(error)?;
        problem.message = unnamed(&self.job.meta.owner.name, pod, &problem.message);
        Some(Answer::CreationRefused(RefusedPod {
            pod: pod.clone(),
            problem,
            of_one: self.is_of_one(action, error),
        }))
    }

    /// As an admission webhook may refuse a pod for what is on its node.
    fn is_of_one(&self, action: &Action, error: &SendError) -> bool {
        matches!(action, Action::CreatePod { .. }) && is_of_one(error)
    }

    fn went_through(&self) -> Option<Answer> {
        Some(Answer::CreationAccepted)
    }
}

/// Where the template of a BroadcastJob is stored.
pub(super) fn place(job: &BroadcastJob) -> template::Place<'_> {
    template::Place {
        kind: Kind::BroadcastJob,
        owner: &job.meta.owner,
        generation: job.meta.generation,
        field: "template",
    }
}

impl Performer<'_> {
    /// Writes a slice of the job, or of one of its family. That of a retry belongs to the first job, too.
    async fn write_slice(&self, owner: &ObjectKey, slice: &SliceWrite) -> Result<u64, SendError> {
        let first = self.job.retry_of.as_ref().map(|first| {
            let (namespace, name) = (&*owner.namespace, &*first.name);
            ObjectKey::of(BROADCAST_JOB, namespace, name, first.uid)
        });
        let request = requests::write_slice(owner, first.as_deref(), slice);
        Ok(write(self.writes, request, None).await?.rv())
    }

    /// The version of a pod that the cache has to come to before the next plan.
    fn awaited(&self, pod: Uid, rv: u64) -> u64 {
        if self.unwatched.contains(&pod) { 0 } else { rv }
    }

    /// A pod that is there and the job's has its event on its way. If somebody has taken it from the job, it
    /// may be that none ever comes, and what it is like is the answer.
    async fn confirm_gone(&self, name: &str, uid: Uid) -> Result<Done, SendError> {
        let request = request::get_whole(Kind::Pod, &self.job.meta.owner.namespace, name);
        let pod = is_found_whole::<SlimPod>(self.writes.read(request).await)?;
        let Some(pod) = pod.filter(|pod| pod.metadata.uid() == Some(uid)) else {
            return Ok(Effect::Nothing.and(Answer::Gone(uid)));
        };
        // What is asked for of another job of the family is that one's, unless it was taken from it. One of
        // our own that was given to another BroadcastJob is still ours.
        let labelled = pod.metadata.labelled_job();
        let labelled = labelled.filter(|_| self.of_relatives.contains(&uid));
        let of_family = |job: &ObjectKey| {
            job.uid != self.job.meta.owner.uid && pod.metadata.is_controlled_by(job)
        };
        if labelled.as_deref().is_some_and(of_family) {
            return Ok(Effect::Still.done());
        }
        let why = pod.metadata.taken_from(&self.job.meta.owner);
        let row = pod.row(&mut Interner::default());
        Ok(match why.zip(row) {
            Some((why, (_, pod))) => Effect::Nothing.and(Answer::Taken(Box::new(TakenPod {
                pod,
                why: why.into(),
                asked: Some(self.now),
            }))),
            None => Effect::Still.done(),
        })
    }

    async fn create_pod(&self, pod: &str, node: &str, slice: u32) -> Result<Done, SendError> {
        let owner = &self.job.meta.owner;
        let creation = async |turn: &Turn<'_>| {
            let creation = self.creation(turn, pod, node, CreateMode::Plain).await?;
            let until = self.relies_on.until(turn, slice, self.not_after).await?;
            Ok((creation, until))
        };
        let sent = create(self.writes, &owner.namespace, self.not_after, creation);
        let error = match sent.await {
            Ok(meta) => return Ok(of_ours(Effect::Created, pod, meta.rv(), meta.uid())),
            Err(error) => error,
        };
        if !may_be_there(&error) {
            return Err(error);
        }
        match found(self.writes, request::get(Kind::Pod, &owner.namespace, pod)).await {
            Ok(Some(meta)) if meta.is_controlled_by(owner) => {
                Ok(of_ours(Effect::Wrote, pod, meta.rv(), meta.uid()))
            }
            Ok(Some(_)) => Ok(Effect::Nothing.and(Answer::NameConflict(pod.into()))),
            Ok(None) | Err(_) => Err(error),
        }
    }

    async fn creation(
        &self,
        turn: &Turn<'_>,
        pod: &str,
        node: &str,
        mode: CreateMode,
    ) -> Result<Creation, SendError> {
        let write = |template: &Value| {
            let owner = &self.job.meta.owner;
            let body = pod_body(template, owner, pod, node, self.placement);
            request::create(Kind::Pod, &owner.namespace, &body, mode)
        };
        self.template.creation(turn, write).await
    }

    /// Asks the API server about the template, without creating anything. What it says of a single pod, it may not
    /// say of another one: only if none would be created, the template is refused.
    async fn check_template(&self, pods: &[(Arc<str>, Box<str>)]) -> Result<Done, SendError> {
        let turn = self.writes.turn(&self.job.meta.owner.namespace).await?;
        let mut refused = None;
        for (node, pod) in pods {
            let creation = self.creation(&turn, pod, node, CreateMode::DryRun).await;
            if refused.is_some() && creation.is_err() {
                break;
            }
            let Creation { call, held: _held } = creation?;
            let status = match turn.send(call, Some(self.not_after)).await {
                Ok(_) => return Ok(Effect::Nothing.and(Answer::Template(Template::Accepted))),
                Err(SendError::Refused(status)) => status,
                // Slow, maybe: what was said before holds.
                Err(_) if refused.is_some() => break,
                Err(error) => return Err(error),
            };
            let reason = match status.code {
                // A full quota says nothing about the template.
                403 if is_quota(&status.message) => {
                    return Ok(Effect::Nothing.and(Answer::Template(Template::Accepted)));
                }
                403 if !is_terminating(&status) => reasons::POD_FORBIDDEN,
                400 | 422 => reasons::INVALID_TEMPLATE,
                _ if refused.is_some() => break,
                _ => return Err(SendError::Refused(status)),
            };
            let message = unnamed(&self.job.meta.owner.name, pod, &status.message);
            refused.get_or_insert_with(|| Refused {
                reason,
                message: printable(&message),
            });
            if status.code == 400 || names_a_field(&status) {
                break;
            }
        }
        let template = refused.map_or(Template::Unknown, |problem| Template::Refused {
            problem,
            at: self.now,
        });
        Ok(Effect::Nothing.and(Answer::Template(template)))
    }
}

/// What the answer to its creation, or to the question for it, says of a pod.
fn of_ours(effect: fn(Kind, u64) -> Effect, pod: &str, rv: u64, uid: Option<Uid>) -> Done {
    let effect = effect(Kind::Pod, rv);
    match uid {
        Some(uid) => effect.and(Answer::Created(pod.into(), uid)),
        None => effect.done(),
    }
}

/// What is true of any pod of a job is not said of one: two leaders may have asked for two, and each would
/// write its own for ever.
fn unnamed(job: &str, pod: &str, message: &str) -> String {
    message.replace(pod, &format!("{job}-*"))
}

/// What a creation that did not succeed says about those to come.
fn refusal(error: &SendError) -> Option<Refused> {
    let (reason, message) = match error {
        SendError::Refused(status) if is_quota(&status.message) => {
            (reasons::QUOTA_EXCEEDED, status.message.clone())
        }
        // What the API server accepted when it was asked, it may refuse since.
        SendError::Refused(status) if names_a_field(status) => {
            (reasons::INVALID_TEMPLATE, status.message.clone())
        }
        SendError::Refused(status) => (reasons::POD_CREATION_FAILING, status.message.clone()),
        SendError::Unknown(_) => (reasons::POD_CREATION_FAILING, error.to_string()),
        SendError::NotSent(_) => return None,
    };
    Some(Refused {
        reason,
        message: printable(&message),
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn leaders_that_have_asked_for_two_pods_say_the_same() {
        let said = |pod: &str| {
            let answer = format!("Pod \"{pod}\" is invalid: metadata.labels: Invalid value");
            unnamed("patch", pod, &answer)
        };
        assert_eq!(said("patch-q47092d4bx"), said("patch-m86c6wln7k"));
        assert!(said("patch-q47092d4bx").starts_with("Pod \"patch-*\" is invalid"));
    }

    #[test]
    fn refusals_of_a_pod_are_told_apart() {
        let [quota, webhook] = ["is forbidden: exceeded quota: q", "denied the request: no"];
        let [validation, policy] = [
            "is invalid: metadata.labels",
            "is forbidden: policy p denied",
        ];
        for (code, field, message, reason) in [
            (403, "", quota, reasons::QUOTA_EXCEEDED),
            (403, "", webhook, reasons::POD_CREATION_FAILING),
            (422, "", policy, reasons::POD_CREATION_FAILING),
            (
                422,
                "metadata.labels",
                validation,
                reasons::INVALID_TEMPLATE,
            ),
        ] {
            let status = json!({"code": code, "message": message,
                "details": {"causes": [{"message": message, "field": field}]}});
            let status: Status = serde_json::from_value(status).unwrap();
            let refused = refusal(&SendError::Refused(Box::new(status))).unwrap();
            assert_eq!(refused.reason, reason, "{message}");
        }
    }
}
