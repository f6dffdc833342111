//! A history: what happens, in an order that a seed decides.

use carillon_plan::Uid;
use carillon_plan::pod::PodPhase;
use fastrand::Rng;

use super::mode::Mode;
use super::outcome::Outcome;
use super::world::{Planner, World};

/// What a history has besides the faults of its mode.
struct Plot {
    jobs_change: bool,
    nodes_change: bool,
    most_retries: usize,
}

/// The history of a seed in a mode.
pub fn history(seed: u64, mode: Mode, planner: Planner) -> Outcome {
    let mut rng = Rng::with_seed(seed);
    let mode = Mode {
        // All at once would hide what one alone shows.
        old_views: mode.old_views && rng.usize(0..4) > 0,
        crashes: mode.crashes && rng.bool(),
        ..mode
    };
    let plot = Plot {
        jobs_change: mode.orphans || mode.late_creations || rng.bool(),
        nodes_change: rng.bool(),
        most_retries: rng.usize(1..=3),
    };
    let mut world = World::new(seed, mode, planner, rng);
    world.make_first();
    if !world.one_in(3) {
        world.warm_up();
        if plot.jobs_change || world.rng.bool() {
            world.make_retry();
        }
    }
    let length = world.rng.usize(150..400);
    for _ in 0..length {
        world.go_on(&plot);
        if world.failure.is_some() {
            return world.outcome();
        }
    }
    world.calm_down();
    world.outcome()
}

impl World {
    fn go_on(&mut self, plot: &Plot) {
        match self.rng.usize(0..20) {
            0..11 => self.lead(),
            11..15 => self.change_a_pod(),
            15 if plot.nodes_change => self.change_a_node(),
            16 => {
                let there = self.jobs.now().contains_key(&self.first);
                if there && self.names.len() <= plot.most_retries {
                    self.make_retry();
                }
            }
            17 if plot.jobs_change => self.change_a_job(),
            18 => {
                self.collect(false);
            }
            _ => {
                let seconds = [1, 1, 5, 11, 61][self.rng.usize(0..5)];
                self.say(format!("{seconds} s pass"));
                self.pass(seconds);
            }
        }
    }

    /// One of the leaders goes on with its plan, or makes one.
    fn lead(&mut self) {
        let leader = self.rng.usize(0..self.leaders.len());
        if self.leaders[leader].running.is_some() {
            if self.mode.crashes && self.one_in(12) {
                self.crash(leader);
                return;
            }
            let many = if self.one_in(3) { 20 } else { 1 };
            for _ in 0..many {
                self.act(leader);
            }
            return;
        }
        let seen = if self.mode.old_views {
            self.some_view()
        } else {
            self.newest()
        };
        let jobs: Vec<Uid> = self.jobs.at(seen.jobs).keys().copied().collect();
        match self.rng.choice(jobs) {
            Some(job) if !self.one_in(6) => {
                self.think(leader, seen, job);
            }
            _ => {
                self.after_deletion(leader);
            }
        }
    }

    /// The first job runs to its end, or nearly, and most of its pods fail.
    fn warm_up(&mut self) {
        for _ in 0..self.rng.usize(10..18) {
            self.think(0, self.newest(), self.first);
            self.act_to_the_end(0);
            for name in self.pod_names() {
                let Some(pod) = self.pod(&name) else { continue };
                if pod.row.phase == PodPhase::Running {
                    let fails = !self.one_in(4);
                    self.end_pod(&name, i32::from(fails));
                } else if !pod.row.phase.has_ended() {
                    self.bind_or_start(&name);
                }
            }
            if self.one_in(4) {
                self.pass(20);
            }
        }
    }
}
