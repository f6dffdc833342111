//! What the API server holds, and what scheduler, kubelets and users do to it.

use carillon_api::NodeState;
use carillon_plan::pod::PodPhase;

use super::world::Budget;

/// One state of the store. Slices and pods are numbers of interned values.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Store {
    pub(super) nodes: Nodes,
    pub(super) status: u8,
    pub(super) hours: u8,
    pub(super) slices: u32,
    pub(super) pods: u32,
}

/// What a leader sees of each kind. A version of an object is its content: no object of this world
/// returns to a content it had before.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct View {
    pub(super) nodes: Nodes,
    pub(super) status: u8,
    pub(super) slices: u32,
    pub(super) pods: u32,
}

/// All nodes, four bits each: three for the generation, one for being cordoned.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Nodes(pub(super) u16);

impl Nodes {
    pub(super) fn generation(self, node: u8) -> u8 {
        (self.0 >> (4 * node) & 7) as u8
    }

    pub(super) fn cordoned(self, node: u8) -> bool {
        self.0 >> (4 * node + 3) & 1 == 1
    }

    pub(super) fn with(self, node: u8, generation: u8, cordoned: bool) -> Self {
        let row = u16::from(generation & 7) | u16::from(cordoned) << 3;
        Self(self.0 & !(15 << (4 * node)) | row << (4 * node))
    }
}

/// One slice.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Content {
    pub(super) sealed: bool,
    /// Results of nodes long gone, before all others.
    pub(super) filled: u16,
    pub(super) entries: Vec<Entry>,
}

/// One attempt, without what no decision depends on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Entry {
    pub(super) node: u8,
    pub(super) generation: u8,
    pub(super) attempt: u8,
    pub(super) state: NodeState,
    pub(super) pod: u8,
    /// Name number and incarnation.
    pub(super) pod_uid: Option<(u8, u8)>,
    /// The reason, as far as it decides anything.
    pub(super) why: Why,
    /// Second of the end, of interrupted attempts: their retries wait for it. Of one under way: since
    /// when its promise is to be taken back.
    pub(super) finished: Option<i32>,
}

/// A reason that decides something.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) enum Why {
    /// Any other, or none.
    #[default]
    Other,
    /// `NodeLost`.
    NodeLost,
    /// `Withdrawn`; of an attempt under way: its promise is to be taken back.
    Withdrawn,
    /// Of an attempt under way: its pod has not started in time and is to be stopped.
    NotStarted,
}

impl Entry {
    pub(super) fn is_final(&self) -> bool {
        self.state != NodeState::Started
    }
}

/// One pod, or the memory of one that is gone.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of one object"
)]
pub(super) struct Pod {
    pub(super) name: u8,
    pub(super) incarnation: u8,
    /// The node it was created for.
    pub(super) node: u8,
    pub(super) bound: bool,
    /// Its container runs, or has run. Where there is no start deadline: as soon as it is bound.
    pub(super) started: bool,
    /// Hour in which it was created, where there is a start deadline.
    pub(super) born: u8,
    pub(super) phase: Phase,
    pub(super) tracked: bool,
    /// Hour in which it was deleted.
    pub(super) deleted: Option<u8>,
    /// It ended after it had been deleted.
    pub(super) ended_late: bool,
    /// Only in the store: it is gone, and only its incarnation is remembered.
    pub(super) gone: bool,
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Phase {
    Active,
    Succeeded,
    Failed,
}

impl Pod {
    pub(super) fn created(name: u8, incarnation: u8, node: u8, bound: bool) -> Self {
        Self {
            name,
            incarnation,
            node,
            bound,
            started: false,
            born: 0,
            phase: Phase::Active,
            tracked: true,
            deleted: None,
            ended_late: false,
            gone: false,
        }
    }

    /// It may run, now or later. One that was deleted before it was bound never will.
    pub(super) fn occupies(&self) -> bool {
        let withdrawn = self.deleted.is_some() && !self.bound;
        !self.gone && self.phase == Phase::Active && !withdrawn
    }

    /// Its resourceVersion, which tells all of its content.
    pub(super) fn version(&self) -> u64 {
        let phase = match self.phase {
            Phase::Active => 0,
            Phase::Succeeded => 1,
            Phase::Failed => 2,
        };
        let deleted = self.deleted.map_or(0, |hour| u64::from(hour) + 1);
        1 + (phase
            | u64::from(self.bound) << 2
            | u64::from(self.tracked) << 3
            | u64::from(self.ended_late) << 4
            | u64::from(self.started) << 5
            | deleted << 6)
    }

    pub(super) fn phase(&self) -> PodPhase {
        match self.phase {
            Phase::Active if self.started => PodPhase::Running,
            Phase::Active => PodPhase::Pending,
            Phase::Succeeded => PodPhase::Succeeded,
            Phase::Failed => PodPhase::Failed,
        }
    }

    /// What the API server does with a deleted pod that nothing holds any more.
    fn settled(mut self) -> Self {
        let over = self.phase != Phase::Active || !self.bound;
        if self.deleted.is_some() && over && !self.tracked {
            // Of a pod that is gone only these decide anything.
            self = Self {
                tracked: false,
                gone: true,
                ..Self::created(self.name, self.incarnation, self.node, self.bound)
            };
        }
        self
    }

    pub(super) fn delete(mut self, hour: u8) -> Self {
        self.deleted.get_or_insert(hour);
        self.settled()
    }

    pub(super) fn release(mut self) -> Self {
        self.tracked = false;
        self.settled()
    }

    pub(super) fn end(mut self, phase: Phase) -> Self {
        self.phase = phase;
        self.ended_late = self.deleted.is_some();
        self.settled()
    }
}

/// The whole world at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct State {
    pub(super) store: Store,
    pub(super) past: Past,
    pub(super) left: Budget,
    /// What is left to do of the plans of the two leaders; 0 is nothing.
    pub(super) plans: [u32; 2],
    /// A request that is under way though its sender has crashed: a plan of one request.
    pub(super) under_way: u32,
}

/// Earlier contents of each kind: numbers of lists.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Past {
    pub(super) nodes: u32,
    pub(super) status: u32,
    pub(super) slices: u32,
    pub(super) pods: u32,
}
