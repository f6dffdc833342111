//! Faults by chance, from a seed.

use std::time::Duration;

use carillon_sim::faults::{EventFate, Fate, Leg};
use carillon_sim::{Call, Status};
use fastrand::Rng;
use http::Method;
use serde::{Deserialize, Serialize};

use crate::process::Process;
use crate::writes::counts;

/// How often what goes wrong, in thousandths.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Weather {
    /// A write is refused: 409, 429, 500, 503 or 504, not applied.
    pub refused: u32,
    /// The connection breaks before a request arrives.
    pub lost: u32,
    /// The reply to a request is lost.
    pub reply_lost: u32,
    /// A request is applied twice.
    pub twice: u32,
    /// The process is killed at a write.
    pub killed: u32,
    /// A watch is closed, or ends in the middle of a line.
    pub watch_closed: u32,
    /// A watch gets 410.
    pub watch_gone: u32,
    /// An event comes late, by up to half a minute.
    pub event_late: u32,
    /// An event comes twice.
    pub event_twice: u32,
    /// An event is lost.
    pub event_lost: u32,
    /// Milliseconds that a request takes longer than it does otherwise.
    #[serde(skip_serializing_if = "is_zero")]
    pub slow: u32,
    /// Seconds by which the cache of one kind in one process lags behind at most; each by a time of its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub lag: u32,
    /// Minutes until it is over; 0: it never is.
    pub minutes: u32,
    /// Users, nodes and machines do anything meanwhile.
    pub monkey: bool,
    /// A user edits what is served meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edits: bool,
    /// A kubelet refuses to run a pod, also when the rest is over.
    #[serde(skip_serializing_if = "is_zero")]
    pub rejected: u32,
}

impl Weather {
    /// Whether a process may hear of something much later than it happened.
    pub fn delays_events(&self) -> bool {
        self.event_late + self.event_lost + self.watch_closed + self.watch_gone + self.lag > 0
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_zero(rate: &u32) -> bool {
    *rate == 0
}

/// Whether a kubelet refuses the n-th pod of a place.
pub fn is_rejected(seed: u64, (place, nth): (&str, usize), thousandths: u32) -> bool {
    let place = place.bytes().fold(seed, |place, byte| {
        place.wrapping_mul(31).wrapping_add(byte.into())
    });
    thousandths > 0 && Rng::with_seed(place.wrapping_add(nth as u64)).u32(0..1000) < thousandths
}

/// The weather, and the dice.
#[derive(Debug)]
pub struct Storm {
    seed: u64,
    rng: Rng,
    weather: Option<Weather>,
}

impl Storm {
    /// Latencies follow from `seed`, and faults, if there is weather.
    pub fn new(seed: u64, weather: Option<Weather>) -> Self {
        Self {
            seed,
            rng: Rng::with_seed(seed),
            weather,
        }
    }

    /// No more faults.
    pub fn calm(&mut self) {
        self.weather = None;
    }

    /// How long a way takes.
    pub fn latency(&mut self, leg: Leg) -> Duration {
        let longest = match leg {
            Leg::Request | Leg::Reply => 5,
            Leg::Event => 20,
        };
        let slow = self.weather.as_ref().map_or(0, |weather| weather.slow);
        let slow = if leg == Leg::Request { slow } else { 0 };
        Duration::from_millis(self.rng.u64(0..=longest) + u64::from(slow))
    }

    /// By how much the cache of a resource in a process lags behind.
    pub fn lag(&self, agent: &str, resource: &str) -> Duration {
        let longest = self.weather.as_ref().map_or(0, |weather| weather.lag);
        if longest == 0 {
            return Duration::ZERO;
        }
        let bytes = agent.bytes().chain(resource.bytes());
        let seed = bytes.fold(self.seed, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(byte.into())
        });
        Duration::from_millis(Rng::with_seed(seed).u64(0..=1000 * u64::from(longest)))
    }

    /// Whether something that happens so many times in a thousand happens now.
    fn chance(&mut self, thousandths: u32) -> bool {
        thousandths > 0 && self.rng.u32(0..1000) < thousandths
    }

    /// What becomes of a request.
    pub fn fate(&mut self, call: &Call, process: &Process) -> Fate {
        let Some(weather) = self.weather.clone() else {
            return Fate::pass();
        };
        let write = counts(call);
        if write && self.chance(weather.killed) {
            process.kill();
            return if self.rng.bool() {
                Fate::silence()
            } else {
                Fate::reset()
            };
        }
        if self.chance(weather.lost) {
            return Fate::reset();
        }
        if self.chance(weather.refused) {
            return Fate::refuse(match self.rng.u32(0..5) {
                0 if !says_which(call) => {
                    Status::conflict(&call.resource(), &call.name, "by chance")
                }
                1 => Status::too_many_requests(1),
                2 => Status::internal("by chance"),
                3 => Status::unavailable(),
                _ => Status::timeout(),
            });
        }
        if call.verb != "watch" && self.chance(weather.reply_lost) {
            return if self.rng.bool() {
                Fate::lose_reply()
            } else {
                Fate::silence()
            };
        }
        if write && self.chance(weather.twice) {
            return Fate::twice();
        }
        Fate::pass()
    }

    /// What becomes of an event.
    pub fn event(&mut self) -> EventFate {
        let Some(weather) = self.weather.clone() else {
            return EventFate::Deliver;
        };
        if self.chance(weather.watch_closed) {
            return if self.rng.bool() {
                EventFate::Close
            } else {
                EventFate::Reset
            };
        }
        if self.chance(weather.watch_gone) {
            return EventFate::Gone;
        }
        if self.chance(weather.event_lost) {
            return EventFate::Drop;
        }
        if self.chance(weather.event_twice) {
            return EventFate::Twice;
        }
        if self.chance(weather.event_late) {
            return EventFate::Delay(Duration::from_millis(self.rng.u64(0..30_000)));
        }
        EventFate::Deliver
    }
}

/// Whether a request is about one object as it was: a delete, or the release of a pod or a run. That it
/// has changed is only said of such a one when it has, and then an event of that is on its way.
fn says_which(call: &Call) -> bool {
    let object = call.method == Method::PATCH && call.subresource.is_empty();
    let kept = ["pods", "jobs.batch", "broadcastjobs.carillon.dev"];
    call.method == Method::DELETE || object && kept.contains(&&*call.resource())
}
