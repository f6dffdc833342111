//! What a plan for a DaemonSet does.

use carillon_plan::daemon_set::action::{Action, NewPod, NewRevision, Note};
use carillon_plan::daemon_set::pod_body::pod_body;
use carillon_plan::daemon_set::refused::What;
use carillon_plan::daemon_set::revision::revision_body;
use carillon_plan::daemon_set::should_run::should_run;
use carillon_plan::daemon_set::{DaemonSet, Why, is_settled, preparing_note};
use serde::Deserialize;
use serde_json::Value;

use super::requests;
use super::revision::SlimRevision;
use crate::apply::precondition::changed;
use crate::apply::template::{Creation, Place, Template};
use crate::apply::{
    Earlier, Effect, Perform, found, is_found_whole, is_of_one, is_taken, made_before,
    may_be_there, pod_note, settled, taken, unchanged, write, written,
};
use crate::gate::Kind;
use crate::lease::BootTime;
use crate::request::{self, Call, CreateMode};
use crate::slim::{Interner, SlimNode, Written};
use crate::writes::{SendError, Turn, Writes};

/// What the API server has answered.
#[derive(Debug)]
pub enum Answer {
    /// A pod of this node is created.
    PodCreated(String),
    /// A pod of this node is deleted, or was gone.
    PodGone {
        /// The node.
        node: String,
        /// Its name, if it had failed and is deleted.
        failed: Option<String>,
    },
    /// Another object has this name, which was to be that of a revision.
    NameTaken(String),
    /// A pod of this node is not created, or not deleted.
    NodeRefused {
        /// The node.
        node: String,
        /// What of both.
        what: What,
    },
    /// A pod of this node stays: it may be there by now.
    PodStays(String),
    /// A status is told.
    StatusTold {
        /// Others will follow.
        more: bool,
    },
    /// Another pod has this name, which was to be that of the pod of a node.
    PodNameTaken {
        /// The name.
        name: String,
        /// The node.
        node: String,
    },
}

type Done = crate::apply::Done<Answer>;

/// Carries out plans for one DaemonSet.
#[derive(Debug)]
pub struct Performer<'a> {
    /// The DaemonSet.
    pub set: &'a DaemonSet,
    /// Its template.
    pub template: Template<'a>,
    /// The way of every write.
    pub writes: &'a Writes,
    /// When the plan is too old for creations.
    pub not_after: BootTime,
}

/// The cached kind of a DaemonSet.
pub(super) fn kind_of(set: &DaemonSet) -> Kind {
    if set.native {
        Kind::NativeDaemonSet
    } else {
        Kind::DaemonSet
    }
}

/// Where the template of a DaemonSet is stored.
pub(super) fn place(set: &DaemonSet) -> Place<'_> {
    Place {
        kind: kind_of(set),
        owner: &set.meta.owner,
        generation: set.meta.generation,
        field: "template",
    }
}

/// A DaemonSet with what its revision is made from.
#[derive(Deserialize)]
struct Whole {
    metadata: WholeMeta,
    #[serde(default)]
    spec: WholeSpec,
}

#[derive(Deserialize)]
struct WholeMeta {
    #[serde(flatten)]
    slim: SlimId,
    annotations: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SlimId {
    uid: String,
    generation: i64,
}

#[derive(Default, Deserialize)]
struct WholeSpec {
    #[serde(default)]
    template: Value,
}

impl Perform for Performer<'_> {
    type Action = Action;
    type Answer = Answer;

    async fn perform(&self, action: &Action, _: Earlier) -> Result<Done, SendError> {
        let owner = &self.set.meta.owner;
        let namespace = owner.namespace.as_str();
        match action {
            Action::ConfirmCurrent => {
                let request = request::get(kind_of(self.set), namespace, &owner.name);
                let set = found(self.writes, request).await?;
                let set = set.filter(|set| set.uid() == Some(owner.uid));
                unchanged(set, self.set.meta.rv)?;
                Ok(Effect::Nothing.done())
            }
            Action::AdoptPod { name, uid } => {
                self.patch(Kind::Pod, requests::adopt(Kind::Pod, owner, name, *uid))
                    .await
            }
            Action::DisownPod { name, uid } => {
                self.patch(Kind::Pod, requests::disown(Kind::Pod, owner, name, *uid))
                    .await
            }
            Action::AdoptRevision { name, uid } => {
                let kind = Kind::Revision;
                self.patch(kind, requests::adopt(kind, owner, name, *uid))
                    .await
            }
            Action::DisownRevision { name, uid } => {
                let kind = Kind::Revision;
                self.patch(kind, requests::disown(kind, owner, name, *uid))
                    .await
            }
            Action::RelabelPod { name, uid, hash } => {
                let request = requests::relabel_pod(namespace, name, *uid, hash);
                self.patch(Kind::Pod, request).await
            }
            Action::RenumberRevision { name, uid, number } => {
                let request = requests::renumber_revision(namespace, name, *uid, *number);
                self.patch(Kind::Revision, request).await
            }
            Action::DeleteRevision { name, uid, rv } => {
                let request = request::delete_unchanged(Kind::Revision, namespace, name, *uid, *rv);
                let deleted = |object: Written| Effect::Deleted(Kind::Revision, object.rv());
                self.send(request, deleted).await
            }
            Action::CreateRevision(revision) => self.create_revision(revision).await,
            Action::CreatePod(pod) => {
                let done = self.create_pod(pod).await?;
                Ok(done.effect.and(Answer::PodCreated(pod.node.clone())))
            }
            Action::PreparePod {
                name,
                uid,
                rv,
                node,
                why,
                at,
            } => {
                let request = requests::prepare_pod(namespace, name, (*uid, *rv), *at);
                let told = |pod: Written| Effect::Wrote(Kind::Pod, pod.rv());
                self.part((node, *why), request, told).await
            }
            Action::KeepPod { name, uid, rv } => {
                let request = requests::keep_pod(namespace, name, (*uid, *rv));
                self.patch(Kind::Pod, request).await
            }
            Action::DeletePod {
                name,
                uid,
                rv,
                node,
                why,
            } => {
                let request = match rv {
                    Some(rv) => request::delete_unchanged(Kind::Pod, namespace, name, *uid, *rv),
                    None => request::delete(Kind::Pod, namespace, name, *uid),
                };
                let deleted = |pod: Written| Effect::Deleted(Kind::Pod, pod.rv());
                let done = self.part((node, *why), request, deleted).await?;
                let deleted = matches!(done.effect, Effect::Deleted(..));
                if !deleted && done.effect != Effect::Gone {
                    return Ok(done);
                }
                let failed = (deleted && *why == Why::Failed).then(|| name.clone());
                let node = node.clone();
                Ok(done.effect.and(Answer::PodGone { node, failed }))
            }
            Action::WriteStatus(status) => {
                let kind = kind_of(self.set);
                let meta = &self.set.meta;
                let old = serde_json::to_value(&self.set.status).unwrap_or_default();
                let new = serde_json::to_value(status).unwrap_or_default();
                if old == new {
                    return Ok(Effect::Nothing.done());
                }
                let request = request::write_status(kind, &meta.owner, meta.rv, &old, new);
                let written = write(self.writes, request, None).await?;
                let more = !is_settled(status);
                Ok(Effect::Wrote(kind, written.rv()).and(Answer::StatusTold { more }))
            }
        }
    }

    /// The name of one pod is somebody else's, or an admission webhook refuses it for what is on its node.
    fn is_of_one(&self, action: &Action, error: &SendError) -> bool {
        matches!(action, Action::CreatePod(_)) && (is_taken(error) || is_of_one(error))
    }

    fn failed(&self, action: &Action, error: &SendError) -> Option<Answer> {
        match action {
            Action::CreateRevision(revision) if is_taken(error) => {
                Some(Answer::NameTaken(revision.name.clone()))
            }
            Action::CreatePod(pod) if is_taken(error) => Some(Answer::PodNameTaken {
                name: pod.name.clone(),
                node: pod.node.clone(),
            }),
            Action::CreatePod(NewPod { node, .. }) => refused(node, What::Creation, error),
            Action::PreparePod { node, .. } | Action::DeletePod { node, .. } => {
                refused(node, What::Deletion, error)
            }
            _ => None,
        }
    }

    fn note(&self, action: &Action, result: &Result<Done, SendError>) -> Option<Note> {
        let effect = result.as_ref().map(|done| done.effect);
        match action {
            Action::CreatePod(pod) => pod_note(true, &pod.name, effect),
            Action::DeletePod { name, .. } => pod_note(false, name, effect),
            Action::PreparePod {
                name, uid, node, ..
            } => {
                let namespace = &self.set.meta.owner.namespace;
                let told = matches!(effect, Ok(Effect::Wrote(..)));
                told.then(|| preparing_note(namespace, (name, *uid), node))
            }
            _ => None,
        }
    }

    fn went_through(&self) -> Option<Answer> {
        None
    }
}

fn refused(node: &str, what: What, error: &SendError) -> Option<Answer> {
    error.refused()?;
    let node = node.to_owned();
    Some(Answer::NodeRefused { node, what })
}

impl Performer<'_> {
    async fn create_pod(&self, pod: &NewPod) -> Result<Done, SendError> {
        let owner = &self.set.meta.owner;
        let turn = self.writes.turn(&owner.namespace).await?;
        let mode = if self.set.native {
            CreateMode::Plain
        } else {
            CreateMode::Strict
        };
        let write = |template: &Value| {
            let body = pod_body(self.set, template, pod);
            request::create(Kind::Pod, &owner.namespace, &body, mode)
        };
        let Creation { call, held } = self.template.creation(&turn, write).await?;
        let reply = written(turn.send(call, Some(self.not_after)).await);
        drop((turn, held));
        let error = match reply {
            Ok(meta) => return Ok(Effect::Created(Kind::Pod, meta.rv()).done()),
            Err(error) => error,
        };
        let pod = (&**owner, Kind::Pod, pod.name.as_str());
        Ok(made_before(self.writes, pod, error).await?.done())
    }

    async fn create_revision(&self, new: &NewRevision) -> Result<Done, SendError> {
        let owner = &self.set.meta.owner;
        let request = request::get_whole(kind_of(self.set), &owner.namespace, &owner.name);
        let whole: Option<Whole> = is_found_whole(self.writes.read(request).await)?;
        let is_planned = |whole: &Whole| {
            let SlimId { uid, generation } = &whole.metadata.slim;
            uid.parse() == Ok(owner.uid) && *generation == self.set.meta.generation
        };
        let whole = whole.filter(is_planned).ok_or_else(changed)?;
        let from = (&whole.spec.template, whole.metadata.annotations.as_ref());
        let body = revision_body(owner, from, (&new.name, &new.hash, new.number));
        let body = body.ok_or_else(changed)?;
        let request = request::create(Kind::Revision, &owner.namespace, &body, CreateMode::Plain);
        let error = match write(self.writes, request, Some(self.not_after)).await {
            Ok(meta) => return Ok(Effect::Created(Kind::Revision, meta.rv()).done()),
            Err(error) => error,
        };
        if !may_be_there(&error) {
            return Err(error);
        }
        let request = request::get_whole(Kind::Revision, &owner.namespace, &new.name);
        match is_found_whole::<SlimRevision>(self.writes.read(request).await) {
            Ok(Some(found))
                if found.metadata.is_controlled_by(owner) && found.data() == self.set.data =>
            {
                Ok(Effect::Found(Kind::Revision, found.metadata.rv()).done())
            }
            Ok(Some(_)) => Err(taken(owner, Kind::Revision, &new.name)),
            Ok(None) | Err(_) => Err(error),
        }
    }

    /// Sends that a pod goes. If that is for what its node is, the node is read first, in the same turn.
    async fn part(
        &self,
        (node, why): (&str, Why),
        request: Call,
        effect: impl FnOnce(Written) -> Effect,
    ) -> Result<Done, SendError> {
        let turn = self.writes.turn(&self.set.meta.owner.namespace).await?;
        if why == Why::NotWanted && self.may_stay(&turn, node).await? {
            return Ok(Effect::Still.and(Answer::PodStays(node.to_owned())));
        }
        let reply = settled(written(turn.send(request, None).await))?;
        Ok(reply.effect(effect).done())
    }

    /// Whether a pod may be on a node by now. The node that was judged may be older than the pod: the process before this
    /// one may have made the pod for a node that this one has not seen yet.
    async fn may_stay(&self, turn: &Turn<'_>, node: &str) -> Result<bool, SendError> {
        let request = request::get_whole(Kind::Node, "", node);
        let node = is_found_whole::<SlimNode>(turn.read(request).await)?;
        let node = node.and_then(|node| node.row(&mut Interner::default()));
        let wish = &self.set.spec.placement;
        Ok(node.is_some_and(|(name, row)| should_run(wish, &name, &row).stays()))
    }

    async fn patch(&self, kind: Kind, request: Call) -> Result<Done, SendError> {
        let wrote = |object: Written| Effect::Wrote(kind, object.rv());
        self.send(request, wrote).await
    }

    async fn send(
        &self,
        request: Call,
        effect: impl FnOnce(Written) -> Effect,
    ) -> Result<Done, SendError> {
        let reply = settled(write(self.writes, request, None).await)?;
        Ok(reply.effect(effect).done())
    }
}
