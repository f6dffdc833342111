//! What a plan for a CronJob does.

use carillon_api::condition::reasons;
use carillon_plan::Uid;
use carillon_plan::cron_job::action::{Action, Note, Run, Why};
use carillon_plan::cron_job::{Api, ChildKind, CronJob, Refused, Template};
use carillon_plan::pod::printable;
use jiff::SignedDuration;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::requests;
use crate::apply::template::Creation;
use crate::apply::{
    CONFIRMED_FOR, Earlier, Effect, Perform, confirmed_until, create, found, is_found, is_quota,
    is_terminating, may_be_there, release, settled, template, unchanged, words, write,
};
use crate::gate::Kind;
use crate::lease::BootTime;
use crate::request::Call;
use crate::request::{self, CreateMode};
use crate::slim::{SlimMeta, Written};
use crate::writes::{SendError, Turn, Writes};

/// What the status of a native CronJob has.
const NATIVE_STATUS: [&str; 3] = ["active", "lastScheduleTime", "lastSuccessfulTime"];

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// Whether such children are accepted.
    Template(Template),
    /// This child is gone.
    Gone(Uid),
    /// There is no child of ours with this name.
    Absent(String),
    /// A child of this name belongs to somebody else.
    NameConflict(String),
    /// It was created, so much later than it was scheduled for.
    Created(String, SignedDuration),
}

type Done = crate::apply::Done<Answer>;

/// Carries out plans for one CronJob.
#[derive(Debug)]
pub struct Performer<'a> {
    /// The CronJob.
    pub cron: &'a CronJob,
    /// Its template.
    pub template: template::Template<'a>,
    /// The way of every write.
    pub writes: &'a Writes,
    /// When the plan is too old for creations.
    pub not_after: BootTime,
    /// What its creations rely on.
    pub relies_on: Mutex<Confirmed>,
}

/// The CronJob as a plan has written it or asked about it last.
#[derive(Debug)]
pub struct Confirmed {
    rv: u64,
    at: Option<BootTime>,
}

impl Confirmed {
    /// As it was read, and not confirmed yet.
    pub fn read(rv: u64) -> Self {
        Self { rv, at: None }
    }
}

/// The cached kind of a child.
pub(super) fn kind(child: ChildKind) -> Kind {
    match child {
        ChildKind::Job => Kind::NativeJob,
        ChildKind::BroadcastJob => Kind::BroadcastJob,
    }
}

/// The cached kind of a CronJob.
pub(super) fn kind_of(api: Api) -> Kind {
    match api {
        Api::Carillon => Kind::CronJob,
        Api::Native => Kind::NativeCronJob,
    }
}

impl Perform for Performer<'_> {
    type Action = Action;
    type Answer = Answer;

    async fn perform(&self, action: &Action, _: Earlier) -> Result<Done, SendError> {
        let meta = &self.cron.meta;
        let namespace = &*meta.owner.namespace;
        match action {
            Action::TryChild(run) => self.try_child(run).await,
            Action::ConfirmGone {
                kind: child,
                name,
                uid,
            } => {
                let found = found(self.writes, request::get(kind(*child), namespace, name)).await?;
                Ok(match (uid, found) {
                    (Some(uid), Some(meta)) if meta.uid() == Some(*uid) => Effect::Nothing.done(),
                    (Some(uid), _) => Effect::Nothing.and(Answer::Gone(*uid)),
                    (None, Some(found)) if found.is_controlled_by(&meta.owner) => {
                        Effect::Nothing.done()
                    }
                    (None, _) => Effect::Nothing.and(Answer::Absent(name.clone())),
                })
            }
            Action::ConfirmCurrent => {
                let cron = found(self.writes, self.get_cron()).await?;
                self.confirm(&mut *self.relies_on.lock().await, cron)?;
                Ok(Effect::Nothing.done())
            }
            Action::WriteStatus(status) => {
                let kind = kind_of(self.cron.api);
                let old = self.shown(&self.cron.status);
                let new = self.shown(status);
                if old == new {
                    return Ok(Effect::Nothing.done());
                }
                let request = request::write_status(kind, &meta.owner, meta.rv, &old, new);
                let written = write(self.writes, request, None).await?;
                *self.relies_on.lock().await = Confirmed {
                    rv: written.rv(),
                    at: Some(self.writes.clock().boot()),
                };
                Ok(Effect::Wrote(kind, written.rv()).done())
            }
            Action::CreateChild(run) => self.create_child(run).await,
            Action::DeleteChild {
                kind: child,
                name,
                uid,
                rv,
                why,
            } => {
                let kind = kind(*child);
                let request = request::delete_with_dependents(kind, namespace, name, *uid, *rv);
                let reply = write(self.writes, request, None).await;
                let gone = |error: &SendError| error.refused().is_some_and(|s| s.code == 404);
                let reply = match (why, reply) {
                    // What is started next relies on it.
                    (Why::Replaced, Err(error)) if !gone(&error) => return Err(error),
                    (_, reply) => settled(reply)?,
                };
                let effect = |child: Written| Effect::Deleted(kind, child.rv());
                Ok(reply.effect(effect).done())
            }
            Action::ReleaseChild {
                kind: child,
                name,
                uid,
            } => {
                let kind = kind(*child);
                let effect = release_child(self.writes, kind, namespace, name, *uid).await?;
                Ok(effect.done())
            }
        }
    }

    fn failed(&self, action: &Action, error: &SendError) -> Option<Answer> {
        let refused = match action {
            Action::TryChild(_) | Action::CreateChild(_) => refusal(error)?,
            _ => return None,
        };
        Some(Answer::Template(Template::Refused(refused)))
    }

    fn note(&self, action: &Action, result: &Result<Done, SendError>) -> Option<Note> {
        let name = match action {
            Action::TryChild(run) | Action::CreateChild(run) => &run.name,
            Action::DeleteChild { name, .. } => name,
            _ => return None,
        };
        let note = |warning, reason, action, message| {
            Some(Note {
                warning,
                reason,
                action,
                message,
                about: None,
            })
        };
        match (action, result) {
            (_, Ok(done)) => match done.effect {
                Effect::Created(..) => {
                    let message = format!("Created job {name}");
                    note(false, "SuccessfulCreate", "Creating", message)
                }
                Effect::Deleted(..) => {
                    let message = format!("Deleted job {name}");
                    note(false, "SuccessfulDelete", "Deleting", message)
                }
                _ => None,
            },
            (Action::DeleteChild { .. }, Err(error)) => {
                let message = format!("Deleted job: {}", words(error)?);
                note(true, "FailedDelete", "Deleting", message)
            }
            (_, Err(error)) => {
                let message = format!("Error creating job: {}", words(error)?);
                note(true, "FailedCreate", "Creating", message)
            }
        }
    }

    fn went_through(&self) -> Option<Answer> {
        None
    }
}

/// Where the template of a CronJob is stored.
pub(super) fn place(cron: &CronJob) -> template::Place<'_> {
    template::Place {
        kind: kind_of(cron.api),
        owner: &cron.meta.owner,
        generation: cron.meta.generation,
        field: match cron.child {
            ChildKind::Job => "jobTemplate",
            ChildKind::BroadcastJob => "broadcastJobTemplate",
        },
    }
}

impl Performer<'_> {
    /// The status as it is written: of a native CronJob only what kube-controller-manager writes.
    fn shown(&self, status: &carillon_api::CronJobStatus) -> Value {
        let shown = serde_json::to_value(status).unwrap_or_default();
        match (self.cron.api, shown) {
            (Api::Native, Value::Object(fields)) => {
                let native = |(field, _): &(String, Value)| NATIVE_STATUS.contains(&&**field);
                Value::Object(fields.into_iter().filter(native).collect::<Map<_, _>>())
            }
            (_, shown) => shown,
        }
    }

    async fn create_child(&self, run: &Run) -> Result<Done, SendError> {
        let owner = &self.cron.meta.owner;
        let kind = kind(run.kind);
        // A template that is edited as a run is due is judged by the creation alone.
        let mode = match self.cron.api {
            Api::Carillon => CreateMode::Strict,
            Api::Native => CreateMode::Plain,
        };
        let creation = async |turn: &Turn<'_>| {
            let creation = self.creation(turn, run, mode).await?;
            Ok((creation, self.confirmed(turn).await?))
        };
        let sent = create(self.writes, &owner.namespace, self.not_after, creation);
        let error = match sent.await {
            Ok(meta) => {
                let created = meta.creation_timestamp.unwrap_or(run.time);
                let late = created.duration_since(run.time);
                let answer = Answer::Created(run.name.clone(), late);
                return Ok(Effect::Created(kind, meta.rv()).and(answer));
            }
            Err(error) => error,
        };
        // The name may be taken by an earlier try of ours whose reply was lost; a full quota answers
        // before the API server has looked.
        if !may_be_there(&error) && error.refused().is_none() {
            return Err(error);
        }
        let request = request::get(kind, &owner.namespace, &run.name);
        match found(self.writes, request).await {
            Ok(Some(meta)) if meta.is_controlled_by(owner) => {
                Ok(Effect::Wrote(kind, meta.rv()).done())
            }
            Ok(Some(_)) => Ok(Effect::Nothing.and(Answer::NameConflict(run.name.clone()))),
            Ok(None) | Err(_) => Err(error),
        }
    }

    /// Until when a creation may be sent whose turn it is: the promise that it keeps may have been taken back, and
    /// the CronJob edited or suspended, since it was stored or asked about.
    async fn confirmed(&self, turn: &Turn<'_>) -> Result<BootTime, SendError> {
        let mut relies_on = self.relies_on.lock().await;
        if let Some(until) = confirmed_until(relies_on.at, self.writes) {
            return Ok(until);
        }
        let cron = is_found(turn.read(self.get_cron()).await)?;
        self.confirm(&mut relies_on, cron)
    }

    fn get_cron(&self) -> Call {
        let owner = &self.cron.meta.owner;
        request::get(kind_of(self.cron.api), &owner.namespace, &owner.name)
    }

    /// It is as it was written or read last: creations may rely on that for a while.
    fn confirm(
        &self,
        relies_on: &mut Confirmed,
        found: Option<SlimMeta>,
    ) -> Result<BootTime, SendError> {
        let found = found.filter(|cron| cron.uid() == Some(self.cron.meta.owner.uid));
        unchanged(found, relies_on.rv)?;
        let now = self.writes.clock().boot();
        relies_on.at = Some(now);
        Ok(now.after(CONFIRMED_FOR))
    }

    async fn creation(
        &self,
        turn: &Turn<'_>,
        run: &Run,
        mode: CreateMode,
    ) -> Result<Creation, SendError> {
        let write = |template: &Value| {
            let body = self.cron.child_body(template, run);
            let namespace = &self.cron.meta.owner.namespace;
            request::create(kind(run.kind), namespace, &body, mode)
        };
        self.template.creation(turn, write).await
    }

    /// Asks the API server about such a child, without creating anything.
    async fn try_child(&self, run: &Run) -> Result<Done, SendError> {
        let turn = self.writes.turn(&self.cron.meta.owner.namespace).await?;
        let Creation { call, held: _held } = self.creation(&turn, run, CreateMode::DryRun).await?;
        match turn.send(call, Some(self.not_after)).await {
            Ok(_) => {}
            // So there is such a child already.
            Err(error) if may_be_there(&error) && error.refused().is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(Effect::Nothing.and(Answer::Template(Template::Accepted)))
    }
}

/// Removes our finalizer from a child, if it is still there.
pub(super) async fn release_child(
    writes: &Writes,
    kind: Kind,
    namespace: &str,
    name: &str,
    uid: Uid,
) -> Result<Effect, SendError> {
    let request = if kind == Kind::NativeJob {
        requests::release_job(namespace, name, uid)
    } else {
        let found = found(writes, request::get(kind, namespace, name)).await?;
        let Some(child) = found.filter(|found| found.uid() == Some(uid)) else {
            return Ok(Effect::Gone);
        };
        requests::release_broadcast_job(namespace, &child)
    };
    release(writes, kind, request).await
}

/// What a creation that did not succeed says about those to come.
fn refusal(error: &SendError) -> Option<Refused> {
    let status = error.refused()?;
    let reason = match status.code {
        _ if is_terminating(status) => return None,
        403 if is_quota(&status.message) => reasons::QUOTA_EXCEEDED,
        403 => reasons::JOB_FORBIDDEN,
        400 | 422 => reasons::INVALID_TEMPLATE,
        _ => reasons::JOB_CREATION_FAILING,
    };
    Some(Refused {
        reason,
        message: printable(&status.message),
    })
}
