//! A tenant of the cluster who knows all names and uids, and does what the role `edit` of one namespace and
//! `pods/status` allow: copies and counterfeits of what is served, huge and odd values, objects that come and
//! go. From a seed, beside the faults.

mod counterfeit;
mod odd;
mod rights;

use carillon_sim::actors::Component;
use carillon_sim::{Actor, Delete, Propagation};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::counterfeit::Sights;
pub use self::rights::{Rights, USER};
use crate::scenario::NAMESPACE;

/// Name of the namespace that a tenant has to itself.
pub const ELSEWHERE: &str = "evil";
/// How long it acts in a run in which nothing else goes wrong.
const IN_CALM: SignedDuration = SignedDuration::from_secs(100);
const LONGEST_PAUSE_MS: i64 = 2500;
/// Objects of one resource that it leaves lying about.
const MOST_OBJECTS: usize = 24;

/// Where a tenant acts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Tenant {
    /// In a namespace of its own, next to that of the scenario.
    Elsewhere,
    /// In the namespace of the scenario: what becomes of that is its own doing, but the operator must stand it.
    Beside,
}

impl Tenant {
    /// Its namespace.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Elsewhere => ELSEWHERE,
            Self::Beside => NAMESPACE,
        }
    }
}

/// The tenant at work.
#[derive(Debug)]
pub struct Adversary {
    rights: Rights,
    /// The namespace is its own.
    alone: bool,
    rng: Rng,
    next: Timestamp,
    until: Timestamp,
    over: bool,
}

impl Adversary {
    /// One that stops at `until`; in a run without faults after a while.
    pub fn new(actor: Actor, tenant: Tenant, seed: u64, until: Timestamp) -> Self {
        let now = actor.server().now();
        Self {
            rights: Rights::new(actor, tenant.namespace()),
            alone: tenant == Tenant::Elsewhere,
            rng: Rng::with_seed(seed ^ 0x7465_6e61_6e74),
            next: now,
            until: if until > now { until } else { now + IN_CALM },
            over: false,
        }
    }

    fn mischief(&mut self) {
        match self.rng.u32(0..100) {
            0..34 => self.copy(),
            34..46 => self.say_how_pods_are(),
            46..58 => self.change(),
            58..68 => self.delete(),
            68..76 => self.come_and_go(),
            76..84 => self.take_a_name(),
            84..94 => self.order_something_odd(),
            _ => self.release(),
        }
        self.tidy_up();
    }

    /// Something of the scenario, with more or less of it changed.
    fn copy(&mut self) {
        let Some(original) = self.any_original() else {
            return;
        };
        let copy = counterfeit::of(&original, &mut self.rng.fork(), &self.sights());
        self.create(&copy);
    }

    /// The same name again and again.
    fn come_and_go(&mut self) {
        let Some(original) = self.any_original() else {
            return;
        };
        let mut copy = counterfeit::of(&original, &mut self.rng.fork(), &self.sights());
        if let Some(metadata) = copy["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
        for _ in 0..self.rng.u32(1..5) {
            self.create(&copy);
            let (resource, name) = (rights::resource(&copy), name(&copy));
            self.rights.delete(resource, &name, &Delete::now());
        }
    }

    /// A name that the operator is about to use.
    fn take_a_name(&mut self) {
        let taken = counterfeit::of_a_coming_name(&mut self.rng.fork(), &self.sights());
        if let Some(taken) = taken {
            self.create(&taken);
        }
    }

    /// An object to be served, such as no sane person writes.
    fn order_something_odd(&mut self) {
        let view = self.rights.view();
        let own = [view.job(), view.cron()].into_iter().flatten().next();
        if let Some(original) = own {
            let mut order = counterfeit::plain(&original, &mut self.rng);
            odd::spec(&mut order, &mut self.rng);
            self.create(&order);
        }
    }

    fn say_how_pods_are(&mut self) {
        for _ in 0..self.rng.u32(1..4) {
            if let Some(pod) = self.any_own(&["pods"]) {
                let status = odd::pod_status(&mut self.rng, self.rights.now());
                self.rights.pod_status(&name(&pod), &status);
            }
        }
    }

    fn change(&mut self) {
        let Some(object) = self.any_own(&rights::RESOURCES) else {
            return;
        };
        let patch = counterfeit::change(&object, &mut self.rng.fork(), &self.sights());
        self.rights
            .patch(rights::resource(&object), &name(&object), &patch);
    }

    fn delete(&mut self) {
        let Some(object) = self.any_own(&rights::RESOURCES) else {
            return;
        };
        let policies = [
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ];
        let how = match self.rng.usize(0..5) {
            3 => Delete::now(),
            4 => Delete::default(),
            policy => Delete::with(policies[policy]),
        };
        self.rights
            .delete(rights::resource(&object), &name(&object), &how);
    }

    /// Takes finalizers off, whosever they are.
    fn release(&mut self) {
        if let Some(object) = self.any_own(&rights::RESOURCES) {
            let bare = json!({"metadata": {"finalizers": null}});
            self.rights
                .patch(rights::resource(&object), &name(&object), &bare);
        }
    }

    /// The simulation costs by how much there is.
    fn tidy_up(&mut self) {
        for resource in rights::RESOURCES {
            let mut all = self.rights.list(resource);
            // What others have here is not in its way.
            all.retain(|object| self.alone || is_own(object));
            let most = if resource == "pods" {
                MOST_OBJECTS
            } else {
                MOST_OBJECTS / 3
            };
            for object in all.iter().take(all.len().saturating_sub(most)) {
                let bare = json!({"metadata": {"finalizers": null}});
                self.rights.patch(resource, &name(object), &bare);
                self.rights.delete(resource, &name(object), &Delete::now());
            }
        }
    }

    /// What would go on for ever.
    fn end(&mut self) {
        for resource in ["cronjobs.carillon.dev", "cronjobs.batch"] {
            for cron in self.rights.list(resource) {
                let how = Delete::with(Propagation::Background);
                if is_own(&cron) {
                    self.rights.delete(resource, &name(&cron), &how);
                }
            }
        }
    }

    fn create(&self, object: &Value) {
        let mut object = object.clone();
        object["metadata"]["annotations"][OWN] = json!("yes");
        self.rights.create(rights::resource(&object), &object);
    }

    fn sights(&mut self) -> Sights<'_> {
        let own = self.any_own(&["broadcastjobs.carillon.dev", "jobs.batch"]);
        let view = self.rights.view();
        Sights { view, own }
    }

    fn any_original(&mut self) -> Option<Value> {
        let view = self.rights.view();
        let (pods, children) = (view.pods(), view.children());
        let served = [view.job(), view.cron()].into_iter().flatten().collect();
        let groups = [&pods, &pods, &children, &children, &served];
        let groups: Vec<_> = groups.into_iter().filter(|all| !all.is_empty()).collect();
        let group = groups.get(self.rng.usize(0..groups.len().max(1)))?;
        Some((*group[self.rng.usize(0..group.len())]).clone())
    }

    fn any_own(&mut self, resources: &[&str]) -> Option<Value> {
        let resource = resources[self.rng.usize(0..resources.len())];
        let all = self.rights.list(resource);
        let all: Vec<_> = all
            .into_iter()
            .filter(|object| is_own(object) || self.rng.bool())
            .collect();
        if all.is_empty() {
            return None;
        }
        Some((*all[self.rng.usize(0..all.len())]).clone())
    }
}

/// Annotation of what it has made itself.
const OWN: &str = "evil.example.com/own";

fn is_own(object: &Value) -> bool {
    object["metadata"]["annotations"][OWN].is_string()
}

fn name(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

impl Component for Adversary {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        while self.next <= now && now < self.until {
            self.mischief();
            let pause = self.rng.i64(20..LONGEST_PAUSE_MS);
            self.next = now + SignedDuration::from_millis(pause);
        }
        if now < self.until {
            return Some(self.next.min(self.until));
        }
        if !self.over {
            self.over = true;
            self.end();
        }
        None
    }
}
