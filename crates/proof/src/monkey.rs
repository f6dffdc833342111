//! Users, nodes and machines that do anything at any time, from a seed; then everything is mended.

use std::cell::RefCell;
use std::rc::Rc;

use carillon_operator::clock::Clock;
use carillon_sim::actors::{Component, KUBELET_STOPPED};
use carillon_sim::{Actor, Status};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::process::Process;
use crate::scenario::{JOB, NAMESPACE, Subject, View};

/// Clocks are wrong by so much at most.
pub const MOST_SKEW: SignedDuration = SignedDuration::from_mins(5);
const LONGEST_PAUSE_MS: i64 = 8000;

/// The processes of a run, as one who stops them sees them.
#[derive(Debug, Default)]
pub struct Machines {
    /// The process that each supervisor runs now.
    pub processes: RefCell<Vec<Process>>,
    /// Its clock.
    pub clocks: RefCell<Vec<Clock>>,
}

impl Machines {
    /// A process was started, with a clock of its own.
    pub fn put(&self, index: usize, process: &Process, clock: &Clock) {
        let (mut processes, mut clocks) = (self.processes.borrow_mut(), self.clocks.borrow_mut());
        if index < processes.len() {
            processes[index] = process.clone();
            clocks[index] = clock.clone();
        } else {
            processes.push(process.clone());
            clocks.push(clock.clone());
        }
    }
}

/// Does harm until a time, and then mends all of it.
#[derive(Debug)]
pub struct Monkey {
    actor: Actor,
    machines: Rc<Machines>,
    rng: Rng,
    subject: &'static Subject,
    nodes: usize,
    next: Timestamp,
    until: Timestamp,
    mended: bool,
}

impl Monkey {
    /// A monkey that knows what is served and on how many nodes, and stops at `until`.
    pub fn new(
        actor: Actor,
        machines: Rc<Machines>,
        (subject, nodes): (&'static Subject, usize),
        seed: u64,
        until: Timestamp,
    ) -> Self {
        let next = actor.server().now();
        Self {
            actor,
            machines,
            rng: Rng::with_seed(seed ^ 0x6d6f_6e6b_6579),
            subject,
            nodes,
            next,
            until,
            mended: false,
        }
    }

    fn node(&mut self) -> String {
        format!("node-{}", self.rng.usize(0..self.nodes.max(1)))
    }

    fn mischief(&mut self) {
        if (self.subject.mischief)(&self.actor, &mut self.rng) {
            return;
        }
        let node = self.node();
        let actor = self.actor.clone();
        let view = View::new(&actor);
        match self.rng.u32(0..100) {
            0..14 => view.patch_node(&node, &cordoned(self.rng.bool())),
            14..26 => view.patch_node(&node, &stopped(self.rng.bool())),
            26..30 => view.delete_node(&node),
            30..42 => view.add_node(&node),
            42..44 => {
                for n in 0..self.nodes {
                    if self.rng.u32(0..10) > 0 {
                        view.delete_node(&format!("node-{n}"));
                    }
                }
            }
            44..62 => {
                let pods = view.pods();
                if !pods.is_empty() {
                    view.delete_pod(&pods[self.rng.usize(0..pods.len())]);
                }
            }
            62..68 => {
                let parallelism = self.rng.u32(1..=4);
                view.patch_job(&json!({"spec": {"parallelism": parallelism}}));
            }
            68..76 if !self.subject.can_pause => {}
            68..72 => view.patch_job(&json!({"spec": {"paused": self.rng.bool()}})),
            72..76 => self.resume(&view),
            76..82 => full_quota(&actor, self.rng.bool()),
            82..88 => self.strike(Process::kill),
            88..92 => self.strike(Process::stop),
            92..96 => self.strike(Process::cont),
            _ => {
                let most = MOST_SKEW.as_secs();
                let skew = SignedDuration::from_secs(self.rng.i64(-most..=most));
                let clocks = self.machines.clocks.borrow();
                if !clocks.is_empty() {
                    clocks[self.rng.usize(0..clocks.len())].set_skew(skew);
                }
            }
        }
    }

    fn strike(&mut self, blow: fn(&Process)) {
        let processes = self.machines.processes.borrow();
        if !processes.is_empty() {
            blow(&processes[self.rng.usize(0..processes.len())]);
        }
    }

    fn resume(&mut self, view: &View<'_>) {
        view.resume(&self.rng.u64(..).to_string());
    }

    /// Everything as a careful administrator would leave it.
    fn mend(&mut self) {
        let actor = self.actor.clone();
        let view = View::new(&actor);
        full_quota(&actor, false);
        (self.subject.mend)(&actor);
        for n in 0..self.nodes {
            let node = format!("node-{n}");
            // One that is there is left as it is.
            view.add_node(&node);
            view.patch_node(&node, &cordoned(false));
            view.patch_node(&node, &stopped(false));
        }
        if view.job().is_some_and(|job| job["spec"]["paused"] == true) {
            view.patch_job(&json!({"spec": {"paused": false}}));
        }
        for clock in self.machines.clocks.borrow().iter() {
            clock.set_skew(SignedDuration::ZERO);
        }
        for process in self.machines.processes.borrow().iter() {
            process.cont();
        }
    }
}

impl Component for Monkey {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        while self.next <= now && now < self.until {
            self.mischief();
            let pause = self.rng.i64(200..LONGEST_PAUSE_MS);
            self.next = now + SignedDuration::from_millis(pause);
        }
        if now < self.until {
            return Some(self.next.min(self.until));
        }
        if !self.mended {
            self.mended = true;
            self.mend();
        }
        // A failure pauses again: somebody looks after the job from now on, now and then.
        let actor = self.actor.clone();
        let view = View::new(&actor);
        if !view.is("Paused") {
            return None;
        }
        if self.next <= now {
            self.resume(&view);
            self.next = now + SignedDuration::from_secs(30);
        }
        Some(self.next)
    }
}

fn cordoned(yes: bool) -> Value {
    json!({"spec": {"unschedulable": yes}})
}

fn stopped(yes: bool) -> Value {
    json!({"metadata": {"annotations": {KUBELET_STOPPED: yes.to_string()}}})
}

fn full_quota(actor: &Actor, full: bool) {
    let server = actor.server();
    if !full {
        return server.clear_admission();
    }
    server.set_admission(|call, _| {
        if call.resource() != "pods" || call.namespace != NAMESPACE {
            return Ok(());
        }
        let why =
            format!("exceeded quota: {JOB}, requested: pods=1, used: pods=1, limited: pods=1");
        Err(Status::forbidden("pods", &call.name, &why))
    });
}
