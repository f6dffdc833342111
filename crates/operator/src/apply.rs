//! The only writer: carries out the steps of a plan, in order.

pub(crate) mod precondition;
pub mod template;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use carillon_plan::{Act, Note, ObjectKey, OnError, Plan};
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use self::precondition::{CHANGED, NAME_TAKEN, absent, conflict, uid_of, unchanged};
use self::template::Creation;
use crate::fence::NotSent;
use crate::gate::Kind;
use crate::lease::BootTime;
use crate::request::{self, Call};
use crate::slim::{SlimMeta, Written};
use crate::writes::{SendError, Turn, Writes, decode};

/// A plan's creations are not sent later than this after it was made, whatever held them up: a
/// process that was stopped meanwhile must not act on what it knew then.
const PLAN_LIFE: Duration = Duration::from_secs(10);

/// The word of the action by which a plan tells.
pub const WRITE_STATUS: &str = "write_status";

/// So many creations are tried in a plan that are refused each by itself.
const MOST_REFUSED: usize = 10;

/// How long a creation may rely on what was written or asked about.
pub(crate) const CONFIRMED_FOR: Duration = Duration::from_secs(1);

/// What a plan did. `R` is what the API server may answer to a plan for this kind.
#[derive(Debug)]
pub struct Applied<R> {
    /// Objects created.
    pub created: usize,
    /// Objects deleted.
    pub deleted: usize,
    /// Objects released.
    pub released: usize,
    /// Writes of any kind that succeeded.
    pub writes: usize,
    /// Those of them that only tell.
    pub told: usize,
    /// Actions but those that only tell.
    pub tried: usize,
    /// What of them went through.
    pub done: BTreeSet<&'static str>,
    /// Writes that changed nothing, as their object had changed or was gone.
    pub in_vain: usize,
    /// The first of them whose object had changed.
    pub outrun: Option<&'static str>,
    /// The highest version written of each kind.
    pub versions: Vec<(Kind, u64)>,
    /// The version at which each new object was created.
    pub creations: Vec<(Kind, u64)>,
    /// Answers of the API server that the next plan needs.
    pub answers: Vec<R>,
    /// What is to be said about single actions.
    pub notes: Vec<Note>,
    /// The first thing that failed, and which action it was.
    pub failed: Option<(&'static str, SendError)>,
    /// A step that the later ones rely on failed, so that those were not tried.
    pub stopped: bool,
    /// The plan grew too old before all of it was sent.
    pub expired: bool,
    /// So many creations may be sent side by side next, as those before went through.
    pub pace: usize,
    /// The plan was made from a state that is no longer the current one.
    pub conflict: bool,
}

impl<R> Default for Applied<R> {
    fn default() -> Self {
        Self {
            created: 0,
            deleted: 0,
            released: 0,
            writes: 0,
            told: 0,
            tried: 0,
            done: BTreeSet::new(),
            in_vain: 0,
            outrun: None,
            versions: Vec::new(),
            creations: Vec::new(),
            answers: Vec::new(),
            notes: Vec::new(),
            failed: None,
            stopped: false,
            expired: false,
            pace: 1,
            conflict: false,
        }
    }
}

/// What one action did, and what was learnt by it.
#[derive(Debug)]
pub struct Done<R> {
    /// What it did.
    pub effect: Effect,
    /// What the next plan has to know.
    pub answer: Option<R>,
}

/// What an action did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It wrote an object.
    Wrote(Kind, u64),
    /// It created one.
    Created(Kind, u64),
    /// What it was to create was there already, by an earlier try.
    Found(Kind, u64),
    /// What was asked for is there.
    Seen(Kind, u64),
    /// It deleted one.
    Deleted(Kind, u64),
    /// What it was to delete was gone already.
    Gone,
    /// It removed our finalizer from one.
    Released(Kind, u64),
    /// The object has changed: nothing was done.
    InVain,
    /// What was asked for is not as the caches show it, and its event is on the way.
    Still,
    /// Nothing was to be written.
    Nothing,
}

impl Effect {
    /// With nothing learnt.
    pub fn done<R>(self) -> Done<R> {
        Done {
            effect: self,
            answer: None,
        }
    }

    /// With something learnt.
    pub fn and<R>(self, answer: R) -> Done<R> {
        Done {
            effect: self,
            answer: Some(answer),
        }
    }
}

/// What earlier steps of a plan did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Earlier {
    /// Objects that are there because of them.
    pub created: usize,
    /// Objects that are gone, or told to go, because of them.
    pub removed: usize,
}

impl Earlier {
    fn count(&mut self, effect: Effect) {
        match effect {
            Effect::Created(..) | Effect::Found(..) => self.created += 1,
            Effect::Deleted(..) | Effect::Gone => self.removed += 1,
            Effect::Wrote(..)
            | Effect::Seen(..)
            | Effect::Released(..)
            | Effect::InVain
            | Effect::Still
            | Effect::Nothing => {}
        }
    }
}

/// How the actions of one kind's plans are done.
pub trait Perform {
    /// The actions.
    type Action: Act;
    /// What the API server may answer.
    type Answer;
    /// Does one.
    fn perform(
        &self,
        action: &Self::Action,
        earlier: Earlier,
    ) -> impl Future<Output = Result<Done<Self::Answer>, SendError>>;
    /// Whether an error is about this action alone, and says nothing of others like it.
    fn is_of_one(&self, _: &Self::Action, _: &SendError) -> bool {
        false
    }
    /// What the next plan has to know of an action that failed.
    fn failed(&self, action: &Self::Action, error: &SendError) -> Option<Self::Answer>;
    /// What people are told of this one action; most are told of all actions of a plan at once.
    fn note(&self, _: &Self::Action, _: &Result<Done<Self::Answer>, SendError>) -> Option<Note> {
        None
    }
    /// What the next plan has to know of a slow start that went through.
    fn went_through(&self) -> Option<Self::Answer>;
}

/// When a plan that is made now is too old to be carried on with.
pub fn end_of_life(writes: &Writes) -> BootTime {
    writes.clock().boot().after(PLAN_LIFE)
}

/// Carries out a plan, with so many actions of a step side by side. A slow start begins at `pace`: the one that
/// the plan before had reached, or 1.
pub async fn apply<P: Perform>(
    performer: &P,
    parallel: usize,
    pace: usize,
    plan: Plan<P::Action>,
) -> Applied<P::Answer> {
    let mut applied = Applied::default();
    let mut done_so_far = Earlier::default();
    for step in plan.steps {
        let earlier = done_so_far;
        let mut size = if step.slow_start {
            pace.max(1)
        } else {
            step.actions.len()
        };
        let mut actions = step.actions.into_iter().peekable();
        let (mut failures, mut of_all) = (0, false);
        while actions.peek().is_some() && !of_all && failures < MOST_REFUSED {
            let batch: Vec<P::Action> = actions.by_ref().take(size).collect();
            let results = side_by_side(performer, parallel, batch, earlier).await;
            let (before, full) = (failures, results.len() == size);
            for (action, result) in results {
                applied.notes.extend(performer.note(&action, &result));
                applied.tried += usize::from(action.word() != WRITE_STATUS);
                match result {
                    Ok(done) => {
                        done_so_far.count(done.effect);
                        applied.note(action.word(), done);
                    }
                    Err(error) => {
                        failures += 1;
                        of_all |= !performer.is_of_one(&action, &error);
                        let answer = performer.failed(&action, &error);
                        applied.fail(action.word(), error, answer);
                    }
                }
            }
            if failures == before && full {
                size *= 2;
            }
            if step.slow_start {
                let pace = if applied.failed.is_none() { size } else { 1 };
                applied.pace = pace.min(parallel);
            }
        }
        let failed = failures > 0;
        if failed && step.on_error == OnError::Stop {
            applied.stopped = true;
            break;
        }
        if !failed && step.slow_start {
            applied.answers.extend(performer.went_through());
        }
    }
    applied
}

/// Performs the actions of a step, so many at a time; in the order in which they ended.
async fn side_by_side<P: Perform>(
    performer: &P,
    parallel: usize,
    mut actions: Vec<P::Action>,
    earlier: Earlier,
) -> Vec<(P::Action, Result<Done<P::Answer>, SendError>)> {
    let perform = |action| async move {
        let result = performer.perform(&action, earlier).await;
        (action, result)
    };
    // One by itself, as most are, needs no set of futures, into which it would have to be moved.
    if actions.len() == 1
        && let Some(action) = actions.pop()
    {
        return vec![perform(action).await];
    }
    let all = stream::iter(actions).map(perform);
    all.buffer_unordered(parallel).collect().await
}

impl<R> Applied<R> {
    fn note(&mut self, word: &'static str, done: Done<R>) {
        self.answers.extend(done.answer);
        match done.effect {
            Effect::InVain => drop(self.outrun.get_or_insert(word)),
            Effect::Still => {}
            _ => drop(self.done.insert(word)),
        }
        let (kind, rv) = match done.effect {
            Effect::Nothing => return,
            // Of what is gone an event tells; or it is not, and somebody only says so.
            Effect::InVain | Effect::Still | Effect::Gone => {
                self.in_vain += 1;
                return;
            }
            Effect::Found(kind, rv) | Effect::Seen(kind, rv) => {
                self.versions.push((kind, rv));
                return;
            }
            Effect::Wrote(kind, rv) => (kind, rv),
            Effect::Created(kind, rv) => {
                self.created += 1;
                self.creations.push((kind, rv));
                (kind, rv)
            }
            Effect::Deleted(kind, rv) => {
                self.deleted += 1;
                (kind, rv)
            }
            Effect::Released(kind, rv) => {
                self.released += 1;
                (kind, rv)
            }
        };
        self.writes += 1;
        self.told += usize::from(word == WRITE_STATUS);
        self.versions.push((kind, rv));
    }

    /// The plan grew too old before anything was created, or refused.
    pub fn expired_in_vain(&self) -> bool {
        self.expired && self.created == 0 && self.failed.is_none()
    }

    fn fail(&mut self, word: &'static str, error: SendError, answer: Option<R>) {
        if matches!(error, SendError::NotSent(NotSent::Expired)) {
            // Nothing is wrong but the server is slow: the rest is planned anew.
            self.expired = true;
            return;
        }
        self.conflict |= error.refused().is_some_and(|status| status.code == 409);
        self.answers.extend(answer);
        self.failed.get_or_insert((word, error));
    }
}

/// Any object, of which only metadata is read.
#[derive(Deserialize)]
struct Envelope<M> {
    metadata: M,
}

/// Sends a write; what became of the object.
pub async fn write(
    writes: &Writes,
    request: Call,
    not_after: Option<BootTime>,
) -> Result<Written, SendError> {
    written(writes.send(request, not_after).await)
}

/// What became of the object, by the reply to a write.
pub fn written(reply: Result<Bytes, SendError>) -> Result<Written, SendError> {
    decode::<Envelope<_>>(&reply?).map(|envelope| envelope.metadata)
}

/// Sends a creation. `creation` makes it when its turn has come, and says until when what it relies on is
/// confirmed: if it has waited for longer it is made again, until the end of the plan.
pub async fn create(
    writes: &Writes,
    namespace: &str,
    end: BootTime,
    creation: impl AsyncFn(&Turn<'_>) -> Result<(Creation, BootTime), SendError>,
) -> Result<Written, SendError> {
    loop {
        let turn = writes.turn(namespace).await?;
        let (Creation { call, held }, confirmed) = creation(&turn).await?;
        let not_after = confirmed.min(end);
        let reply = written(turn.send(call, Some(not_after)).await);
        drop((turn, held));
        match reply {
            Err(SendError::NotSent(NotSent::Expired)) if not_after < end => {}
            reply => return reply,
        }
    }
}

/// Until when a creation may rely on what was confirmed then. `None` where that is over: it has to be asked for again.
pub fn confirmed_until(confirmed: Option<BootTime>, writes: &Writes) -> Option<BootTime> {
    let until = confirmed?.after(CONFIRMED_FOR);
    (writes.clock().boot() < until).then_some(until)
}

/// Whether an earlier try of the same creation may have gone through, so that the name is taken by
/// what we made ourselves.
pub fn may_be_there(error: &SendError) -> bool {
    match error {
        SendError::Refused(status) => status.reason == "AlreadyExists",
        SendError::Unknown(_) => true,
        SendError::NotSent(_) => false,
    }
}

/// The object's metadata, or `None` when there is no such object.
pub async fn found(writes: &Writes, request: Call) -> Result<Option<SlimMeta>, SendError> {
    is_found(writes.read(request).await)
}

/// The same, by the reply to a read.
pub fn is_found(reply: Result<Bytes, SendError>) -> Result<Option<SlimMeta>, SendError> {
    let found = is_found_whole::<Envelope<_>>(reply)?;
    Ok(found.map(|envelope| envelope.metadata))
}

/// The object that a reply to a read holds, or `None` when there is none.
pub fn is_found_whole<T: DeserializeOwned>(
    reply: Result<Bytes, SendError>,
) -> Result<Option<T>, SendError> {
    match reply {
        Ok(reply) => decode::<T>(&reply).map(Some),
        Err(error) if error.refused().is_some_and(|status| status.code == 404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What became of a write to an object that may be another one by now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Settled<T> {
    /// It went through.
    Done(T),
    /// The object is gone, or another one has its name.
    Gone,
    /// The object has changed.
    Changed,
}

impl<T> Settled<T> {
    /// The reply.
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(reply) => Some(reply),
            Self::Gone | Self::Changed => None,
        }
    }

    /// What was done.
    pub fn effect(self, done: impl FnOnce(T) -> Effect) -> Effect {
        match self {
            Self::Done(reply) => done(reply),
            Self::Gone => Effect::Gone,
            Self::Changed => Effect::InVain,
        }
    }
}

/// Sends the removal of our finalizer from an object that may be gone, or another one by now.
pub async fn release(writes: &Writes, kind: Kind, request: Call) -> Result<Effect, SendError> {
    let reply = settled(write(writes, request, None).await)?;
    Ok(reply.effect(|object: Written| Effect::Released(kind, object.rv())))
}

/// A delete or release whose object is gone, has changed or is another one has nothing left to do.
pub fn settled<T>(result: Result<T, SendError>) -> Result<Settled<T>, SendError> {
    match result {
        Ok(value) => Ok(Settled::Done(value)),
        Err(error) if error.refused().is_some_and(|status| status.code == 409) => {
            Ok(Settled::Changed)
        }
        Err(error) if error.refused().is_some_and(is_gone) => Ok(Settled::Gone),
        Err(error) => Err(error),
    }
}

/// A patch that names another uid is answered as one that would change it, with 422.
fn is_gone(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let names_another = || {
        causes
            .into_iter()
            .any(|cause| cause.field == "metadata.uid")
    };
    status.code == 404 || status.code == 422 && names_another()
}

/// Whether a quota is full. The API has no code of its own for a full quota; its admission plugin says it in words.
pub fn is_quota(message: &str) -> bool {
    message.contains("exceeded quota")
}

/// Whether a refusal is one of validation. A policy of admission says 422, too, and may mean this object alone.
pub fn names_a_field(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.into_iter().any(|cause| !cause.field.is_empty())
}

/// Whether the API server does not know a field of the template, and was asked to say so.
fn has_an_unknown_field(status: &kube::core::Status) -> bool {
    status.code == 400 && status.message.contains("strict decoding error")
}

/// Whether the creation of one pod may have been refused for what is on its node, as by an admission webhook.
pub fn is_of_one(error: &SendError) -> bool {
    let of_one = |status: &kube::core::Status| {
        let of_all = names_a_field(status)
            || is_terminating(status)
            || is_quota(&status.message)
            || has_an_unknown_field(status);
        matches!(status.code, 400 | 403 | 422) && !of_all
    };
    error.refused().is_some_and(of_one)
}

/// What people are told of a creation or deletion that did not succeed. Nothing, of a namespace on its way out, and
/// of what was not sent.
pub fn words(error: &SendError) -> Option<String> {
    match error {
        SendError::Refused(status) if is_terminating(status) => None,
        SendError::Refused(status) => Some(status.message.clone()),
        SendError::Unknown(_) => Some(error.to_string()),
        SendError::NotSent(_) => None,
    }
}

/// What people are told of the creation or deletion of a pod, in upstream's words (`RealPodControl`).
pub fn pod_note(creates: bool, pod: &str, result: Result<Effect, &SendError>) -> Option<Note> {
    let (reasons, verb, doing) = if creates {
        (["SuccessfulCreate", "FailedCreate"], "creating", "Created")
    } else {
        (["SuccessfulDelete", "FailedDelete"], "deleting", "Deleted")
    };
    let (warning, message, version) = match result {
        Ok(Effect::Created(_, rv) | Effect::Deleted(_, rv)) => {
            (false, format!("{doing} pod: {pod}"), Some(rv))
        }
        Ok(_) => return None,
        Err(error) => (true, format!("Error {verb}: {}", words(error)?), None),
    };
    Some(Note {
        warning,
        reason: reasons[usize::from(warning)],
        action: if creates { "Creating" } else { "Deleting" },
        message,
        // The next pod of this name is told, too.
        about: version.map(|rv| rv.to_string()),
    })
}

/// An object of this name is somebody else's. No conflict, which the next plan would be free of.
pub fn taken(owner: &ObjectKey, kind: Kind, name: &str) -> SendError {
    let (of, needs) = (kind.api_kind().1, owner.kind);
    let message = format!(
        "{of} {}/{name} belongs to somebody else, and the {needs} {} needs its name: delete the {of}",
        owner.namespace, owner.name
    );
    let mut status = kube::core::Status::failure(&message, "AlreadyExists");
    status.code = 422;
    SendError::Refused(Box::new(status))
}

/// Whether an error says that: see [`taken`].
pub fn is_taken(error: &SendError) -> bool {
    let refused = error.refused();
    refused.is_some_and(|status| status.code == 422 && status.reason == "AlreadyExists")
}

/// What a creation that failed has come to: the object may be there by an earlier try of ours whose reply was lost, or
/// its name be somebody else's.
///
/// # Errors
/// When it is neither known to be there nor somebody else's: the error of the creation.
pub async fn made_before(
    writes: &Writes,
    (owner, kind, name): (&ObjectKey, Kind, &str),
    error: SendError,
) -> Result<Effect, SendError> {
    if !may_be_there(&error) {
        return Err(error);
    }
    match found(writes, request::get(kind, &owner.namespace, name)).await {
        Ok(Some(meta)) if meta.is_controlled_by(owner) => Ok(Effect::Found(kind, meta.rv())),
        Ok(Some(_)) => Err(taken(owner, kind, name)),
        Ok(None) | Err(_) => Err(error),
    }
}

/// Whether the namespace is being deleted.
pub fn is_terminating(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
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
        let mut applied = Applied::<()>::default();
        applied.fail("create_pod", SendError::NotSent(NotSent::Expired), None);
        assert!(applied.expired && applied.failed.is_none());
    }

    #[test]
    fn of_two_pods_of_one_name_each_is_told() {
        let note = |effect| pod_note(true, "agent-1", Ok(effect)).unwrap();
        let [first, second] = [7, 9].map(|rv| note(Effect::Created(Kind::Pod, rv)));
        assert_eq!(first.message, second.message);
        assert_ne!(first.about, second.about);
    }

    #[test]
    fn an_object_that_is_gone_or_has_changed_leaves_nothing_to_delete() {
        for (code, what) in [(404, Settled::Gone), (409, Settled::Changed)] {
            assert_eq!(settled::<()>(Err(refused(code, ""))).unwrap(), what);
        }
        let another = serde_json::json!({
            "code": 422, "reason": "Invalid",
            "details": {"causes": [{"field": "metadata.uid", "reason": "FieldValueInvalid"}]},
        });
        let another: kube::core::Status = serde_json::from_value(another).unwrap();
        let another = SendError::Refused(Box::new(another));
        assert_eq!(settled::<()>(Err(another)).unwrap(), Settled::Gone);
        for code in [403, 422] {
            assert!(settled::<()>(Err(refused(code, ""))).is_err());
        }
    }
}
