//! Runs by name: the name of a child says which run it is, and is the lock against a second one.

use carillon_api::cron_job::RunReference;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use carillon_api::names::{
    ANNOTATION_RUN_NOW, ANNOTATION_SCHEDULED_TIMESTAMP, FINALIZER_RUN_TRACKING,
    LABEL_CRON_JOB_NAME, LABEL_CRON_JOB_UID,
};

use super::action::Run;
use super::child::{Child, ChildKind};
use super::request::Asked;
use super::spec::CronJob;
use crate::name;
use crate::object::{NewObject, as_written, object};
use crate::pod_body::written;
use crate::schedule::zone;

/// What follows the CronJob's name in that of a run on request, before its hash; minutes are digits.
const REQUESTED: &str = "-r";

impl CronJob {
    /// The run of a tick. Its name has the minute, as upstream's: two ticks of one minute have one
    /// child.
    pub(crate) fn run_at(&self, tick: Timestamp) -> Run {
        let minutes = tick.as_second().div_euclid(60);
        Run {
            kind: self.child,
            name: format!("{}-{minutes}", self.meta.owner.name),
            time: tick,
            request: None,
        }
    }

    /// The run that the annotation asks for with this word.
    pub(super) fn run_for(&self, request: &str, now: Timestamp) -> Run {
        Run {
            kind: self.child,
            name: self.name_for(request),
            time: now,
            request: Some(request.to_owned()),
        }
    }

    /// The tick of a child: as it says itself, if that is of the minute of its name; otherwise the
    /// last of that minute that the schedule has, or else the minute. `None`: it is no run of a tick.
    ///
    /// The name decides, because annotations can be edited.
    pub(super) fn tick_of(&self, name: &str, child: &Child) -> Option<Timestamp> {
        let minute = self.minute_of(name)?;
        let within = |tick: &Timestamp| tick.as_second().div_euclid(60) * 60 == minute.as_second();
        let said = child.scheduled.filter(within);
        Some(said.or_else(|| self.last_within(minute)).unwrap_or(minute))
    }

    fn last_within(&self, minute: Timestamp) -> Option<Timestamp> {
        let schedule = self.timetable.as_ref().ok()?;
        let from = minute.checked_sub(SignedDuration::from_secs(1)).ok()?;
        let until = minute.checked_add(SignedDuration::from_secs(59)).ok()?;
        schedule.latest(from, until)
    }

    /// The minute in the name of a run of a tick. `None`: this is not one.
    pub(super) fn minute_of(&self, name: &str) -> Option<Timestamp> {
        let minutes = name.strip_prefix(&*self.meta.owner.name)?;
        let minutes = minutes.strip_prefix('-')?;
        let digits = minutes.bytes().all(|byte| byte.is_ascii_digit());
        let minutes: i64 = minutes.parse().ok().filter(|_| digits)?;
        Timestamp::from_second(minutes.checked_mul(60)?).ok()
    }

    /// The request that a child is the run of.
    pub(super) fn request_of<'c>(&'c self, name: &str, child: &'c Child) -> Option<&'c str> {
        let asked = match self.asked() {
            Asked::Run(word) => Some(word),
            Asked::Nothing | Asked::Unreadable(_) => None,
        };
        let known = [child.request.as_deref(), asked];
        let mut known = known.into_iter().flatten().filter(|_| !self.is_native());
        known.find(|request| self.name_for(request) == name)
    }

    fn name_for(&self, request: &str) -> String {
        let owner = &self.meta.owner;
        let hash = name::request(owner.uid, request);
        format!("{}{REQUESTED}{hash}", owner.name)
    }

    /// A reference to a run. Without uid it is a promise.
    pub(super) fn reference(&self, kind: ChildKind, name: &str) -> RunReference {
        RunReference {
            api_version: kind.api_version().to_owned(),
            kind: kind.kind().to_owned(),
            namespace: self.meta.owner.namespace.clone(),
            name: name.to_owned(),
            uid: None,
            resource_version: None,
        }
    }

    /// The child of a run: the template as written, and what is ours. Labels only where the object
    /// is ours, so that Jobs of native CronJobs are those that kube-controller-manager makes. A run
    /// on request was scheduled for no time.
    pub fn child_body<'a>(&self, template: &'a Value, run: &Run) -> NewObject<'a> {
        let owner = &self.meta.owner;
        let mut labels = written(template, "/metadata/labels");
        let mut annotations = written(template, "/metadata/annotations");
        let mut spec = as_written(template.get("spec"));
        if !self.is_native() {
            labels.insert(LABEL_CRON_JOB_NAME.to_owned(), json!(owner.name));
            labels.insert(LABEL_CRON_JOB_UID.to_owned(), json!(owner.uid.to_string()));
        }
        if let Some(request) = &run.request {
            annotations.insert(ANNOTATION_RUN_NOW.to_owned(), json!(request));
        } else {
            let time = json!(self.local(run.time));
            if !self.is_native() {
                tell_pods(spec.to_mut(), &time);
            }
            annotations.insert(ANNOTATION_SCHEDULED_TIMESTAMP.to_owned(), time);
        }
        let mut metadata = object([
            ("name", run.name.as_str().into()),
            ("namespace", owner.namespace.as_str().into()),
            ("annotations", annotations.into()),
            ("ownerReferences", vec![owner.reference()].into()),
            ("finalizers", json!([FINALIZER_RUN_TRACKING])),
        ]);
        if !labels.is_empty() {
            metadata["labels"] = labels.into();
        }
        NewObject {
            api_version: run.kind.api_version(),
            kind: run.kind.kind(),
            metadata,
            spec,
        }
    }

    /// RFC 3339 in `spec.timeZone`, otherwise in UTC.
    fn local(&self, time: Timestamp) -> String {
        let zone = self.zone.as_deref().and_then(|zone| zone::load(zone).ok());
        let Some(zone) = zone else {
            return time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        };
        let local = time.to_zoned(zone);
        let text = local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        // As Go writes it.
        match text.strip_suffix("+00:00") {
            Some(text) => format!("{text}Z"),
            None => text,
        }
    }
}

/// The pods, too, carry the time they are for, so that a container can read it.
fn tell_pods(spec: &mut Value, time: &Value) {
    let metadata = spec
        .get_mut("template")
        .and_then(|template| object_in(template, "metadata"));
    let annotations = metadata.and_then(|metadata| object_in(metadata, "annotations"));
    if let Some(Value::Object(annotations)) = annotations {
        annotations.insert(ANNOTATION_SCHEDULED_TIMESTAMP.to_owned(), time.clone());
    }
}

/// A field that is an object; one that is null or absent is made one.
fn object_in<'v>(of: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    let field = of.as_object_mut()?.entry(key).or_insert(Value::Null);
    if field.is_null() {
        *field = json!({});
    }
    Some(field).filter(|field| field.is_object())
}

/// Whether a reference is to this child.
pub(super) fn is_to(reference: &RunReference, kind: ChildKind, name: &str) -> bool {
    reference.kind == kind.kind() && reference.name == name
}
