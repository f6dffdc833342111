//! The connection of one process to the API server, and what goes wrong on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_oracle::isolation::requests::Asked;
use carillon_oracle::{Key, Request};
use carillon_sim::faults::{Applied, Connect, Event, EventFate, Fate, Faults, Leg};
use carillon_sim::{Call, Clock, Gate, Status};
use http::Method;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::blow::{Blow, Point};
use crate::disturbance::{Disturbance, Slow};
use crate::fault::{self, Fault, What};
use crate::process::{Process, State};
use crate::span::Span;
use crate::storm::Storm;
use crate::wire::Wire;
use crate::writes::counts;

/// A request that was held on its way, and since when.
pub type Late = (Arc<Request>, Timestamp);

/// What all connections of one run share.
#[derive(Debug)]
pub struct Line {
    /// Writes that reached the point of being sent, leases and events apart.
    writes: AtomicUsize,
    /// Events that were to be delivered.
    events: AtomicUsize,
    disturbance: Disturbance,
    /// Requests that are held because their process was stopped.
    held: Mutex<Vec<(Process, Gate)>>,
    /// Requests that were on their way when their process was stopped, and since when.
    late: Mutex<Vec<Late>>,
    clock: Clock,
    storm: Mutex<Storm>,
    /// Those that are left.
    faults: Mutex<Vec<Fault>>,
    /// Every request, where there is a tenant.
    asked: Mutex<Vec<Asked>>,
    begin: Instant,
    /// Nobody can connect.
    down: AtomicBool,
}

impl Line {
    /// A line that suffers from `disturbance`; its latencies follow from `seed`. The run begins now.
    pub fn new(disturbance: Disturbance, seed: u64, clock: Clock) -> Arc<Self> {
        let storm = Mutex::new(Storm::new(seed, disturbance.weather.clone()));
        let faults = Mutex::new(disturbance.faults.clone());
        Arc::new(Self {
            writes: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
            disturbance,
            faults,
            begin: Instant::now(),
            down: AtomicBool::new(false),
            held: Mutex::default(),
            late: Mutex::default(),
            asked: Mutex::default(),
            clock,
            storm,
        })
    }

    /// Writes so far.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// How many requests were to meet a fault and did not come.
    pub fn unmet(&self) -> usize {
        lock(&self.faults).iter().map(|fault| fault.times).sum()
    }

    /// What was asked for, where there is a tenant; this forgets it.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *lock(&self.asked))
    }

    fn note(&self, call: &Call) {
        if self.disturbance.tenant.is_none() {
            return;
        }
        let body = call.body.as_ref();
        let uid = |part: &str| body.and_then(|body| body[part]["uid"].as_str());
        let uid = uid("metadata").or_else(|| uid("preconditions"));
        lock(&self.asked).push(Asked {
            at: self.clock.now(),
            // As the real one would understand it, and as nobody means it.
            verb: match call.verb {
                "get" if !call.subresource.is_empty() || call.uri.contains('?') => "other",
                verb => verb,
            },
            key: Key {
                resource: call.resource().into(),
                namespace: call.namespace.as_str().into(),
                name: call.name.as_str().into(),
            },
            uid: uid.unwrap_or_default().to_owned(),
        });
    }

    /// Watch events so far.
    pub fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }

    /// Nothing goes wrong any more.
    pub fn calm(&self) {
        self.storm().calm();
        lock(&self.faults).clear();
    }

    /// Whether the watch of a process that is to bring this event hangs.
    fn hangs(&self, agent: &str, event: &Event) -> bool {
        let now = self.begin.elapsed().as_secs();
        let mut silences = self.disturbance.silent.iter();
        silences.any(|silence| {
            let Span { from, to } = silence.during;
            let concerned = silence.agent.as_deref().is_none_or(|of| of == agent);
            concerned && (from..to).contains(&now) && *silence.resource == *event.key.resource
        })
    }

    /// How much longer a request takes.
    fn slowness(&self, call: &Call) -> Duration {
        let meets = |slow: &&Slow| {
            let of = slow.namespace.as_deref();
            let concerned = of.is_none_or(|namespace| namespace == call.namespace);
            concerned && slow.verb == call.verb && slow.resource == call.resource()
        };
        let slow = self.disturbance.slow.iter().filter(meets);
        Duration::from_millis(slow.map(|slow| slow.millis).sum())
    }

    /// Whether nobody can connect.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// Lets go of what a stopped process had on its way, and continues it.
    pub fn continue_stopped(&self) {
        let held = std::mem::take(&mut *lock(&self.held));
        for (process, gate) in held {
            gate.open();
            process.cont();
        }
    }

    /// Requests that were on their way when their process was stopped, and since when.
    pub fn late(&self) -> Vec<Late> {
        lock(&self.late).clone()
    }

    /// Whether a process is stopped.
    pub fn has_stopped(&self) -> bool {
        !lock(&self.held).is_empty()
    }

    fn storm(&self) -> MutexGuard<'_, Storm> {
        lock(&self.storm)
    }
}

/// The connection of one process.
#[derive(Debug)]
pub struct Connection {
    line: Arc<Line>,
    process: Process,
    /// A process that was started again may see old lists first, by this many revisions.
    stale: Mutex<Stale>,
    /// The request after whose reply the process is killed.
    last: Mutex<Option<(Method, String)>>,
    /// What the process makes of its watches.
    wire: Wire,
    /// When the process was started.
    since: Instant,
    /// The revision then.
    began_at: u64,
}

/// What a process says that panics because it was to.
pub const PROVOKED: &str = "a panic that was provoked";
/// So long after its start a process that saw an earlier revision is told what has happened since.
const BEHIND_FOR: Duration = Duration::from_secs(2);

/// Lists that are answered as of an earlier revision, the first of each resource.
#[derive(Debug, Default)]
pub struct Stale {
    /// The revision.
    pub revision: Option<u64>,
    /// Resources that were listed already.
    pub listed: Vec<String>,
    /// By resource, up to which revision the process was told of it.
    told: HashMap<String, u64>,
}

impl Connection {
    /// A connection of `process`, which begins now, at this revision; its first lists show the state at
    /// `revision`, if given.
    pub fn new(
        line: Arc<Line>,
        process: Process,
        began_at: u64,
        revision: Option<u64>,
        wire: Wire,
    ) -> Arc<Self> {
        Arc::new(Self {
            line,
            process,
            stale: Mutex::new(Stale {
                revision,
                ..Stale::default()
            }),
            last: Mutex::default(),
            wire,
            since: Instant::now(),
            began_at,
        })
    }

    /// To be called when a reply has been read: the process may not live to use it.
    pub fn replied(&self, request: &(Method, String)) {
        if lock(&self.last).as_ref() == Some(request) {
            self.process.kill();
        }
    }

    fn stop_here(&self, call: &Call) -> Fate {
        let since = (call.request(), self.line.clock.now());
        lock(&self.line.late).push(since);
        let gate = Gate::new();
        let held = (self.process.clone(), gate.clone());
        lock(&self.line.held).push(held);
        self.process.stop();
        Fate::hold(gate)
    }

    fn strike(&self, blow: Blow, call: &Call) -> Fate {
        match blow {
            Blow::Kill(Point::BeforeSend) => {
                self.process.kill();
                Fate::reset()
            }
            Blow::Kill(Point::ReplyLost) => {
                self.process.kill();
                Fate::silence()
            }
            Blow::Kill(Point::AfterReply) => {
                *lock(&self.last) = Some((call.method.clone(), call.uri.clone()));
                Fate::pass()
            }
            Blow::Stop => self.stop_here(call),
            Blow::LoseReply => Fate::lose_reply(),
            Blow::Refuse => Fate::refuse(Status::internal("out of order")),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Faults for Connection {
    fn latency(&self, call: &Call, leg: Leg) -> Duration {
        let mut storm = self.line.storm();
        let lag = match leg {
            Leg::Event => storm.lag(&call.agent, &call.resource()),
            Leg::Request => self.line.slowness(call),
            Leg::Reply => Duration::ZERO,
        };
        storm.latency(leg) + lag
    }

    fn on_connect(&self, _: &Call) -> Connect {
        // A process that is over sends nothing more; what it computes until its tasks are dropped
        // does not matter.
        match self.process.state() {
            State::Running if self.line.down.load(Ordering::Relaxed) => Connect::Refused,
            State::Running => Connect::Open,
            State::Stopped | State::Killed | State::Exited(_) => Connect::Held(Gate::new()),
        }
    }

    fn on_request(&self, call: &Call) -> Fate {
        self.line.note(call);
        if call.verb == "list" {
            let mut stale = lock(&self.stale);
            let first = !stale.listed.contains(&call.resource());
            if first {
                stale.listed.push(call.resource());
            }
            let cached = self.wire.cached.is_none_or(|cached| cached(call));
            if let Some(revision) = stale.revision.filter(|_| first && cached) {
                return Fate::as_of(revision);
            }
            let remembered = self.wire.remembers.is_some_and(|remembers| remembers(call));
            if remembered {
                let told = stale.told.get(&call.resource()).copied();
                return Fate::as_of(told.unwrap_or(self.began_at));
            }
        }
        if counts(call) {
            let nth = self.line.writes.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(blow) = self.line.disturbance.blow(nth) {
                return self.strike(blow, call);
            }
        }
        let what = fault::strike(&mut lock(&self.line.faults), call);
        match what {
            Some(What::Refused(code)) => fault::answered(call, code, Applied::Not),
            Some(What::Busy(seconds)) => Fate::refuse(Status::too_many_requests(seconds)),
            Some(What::AppliedAndAnswered(code)) => fault::answered(call, code, Applied::Once),
            Some(What::ReplyLost) => Fate::lose_reply(),
            Some(What::Killed(point)) => self.strike(Blow::Kill(point), call),
            None => self.line.storm().fate(call, &self.process),
        }
    }

    fn on_event(&self, call: &Call, event: &Event) -> EventFate {
        let nth = self.line.events.fetch_add(1, Ordering::Relaxed) + 1;
        // This runs in the task that reads the watch.
        assert!(
            self.line.disturbance.panic_at_event != Some(nth),
            "{PROVOKED}"
        );
        if self.line.disturbance.lost_event == Some(nth) {
            return EventFate::Drop;
        }
        let overlooked = |overlooks: fn(&Event) -> bool| overlooks(event);
        if self.wire.overlooks.is_some_and(overlooked) {
            return EventFate::Drop;
        }
        if self.line.hangs(&call.agent, event) {
            return EventFate::Hold(Gate::new());
        }
        let told = event.revision.max(self.began_at);
        lock(&self.stale).told.insert(call.resource(), told);
        let behind = BEHIND_FOR.saturating_sub(self.since.elapsed());
        if lock(&self.stale).revision.is_some() && !behind.is_zero() {
            return EventFate::Delay(behind);
        }
        self.line.storm().event()
    }
}
