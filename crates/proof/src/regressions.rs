//! Seeds that have once found something. They are run before the fresh ones, and by `cargo test`.
//!
//! A seed means the same schedule only as long as the swarm draws the same from it, and the operator sends the
//! same requests. So it is a witness and no proof that a mistake stays away: each has a scenario, a small world
//! or a test of its own besides.

use std::ptr;

use crate::case::Case;
use crate::kinds::{ProvedKind, broadcast_job, cron_job, daemon_set, job};
use crate::swarm;

/// A seed, and what went wrong.
#[derive(Clone, Copy, Debug)]
pub struct Regression {
    /// What the seed is about.
    pub kind: &'static ProvedKind,
    /// The seed.
    pub seed: u64,
    /// Who else was there. The first seeds were found before there was anybody.
    pub beside: Beside,
    /// What it has found.
    pub found: &'static str,
}

/// Who acts beside the operator, its users and what goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Beside {
    /// Nobody.
    Nobody,
    /// The tenant of [`ProvedKind::case_with_tenant`].
    Tenant,
    /// Who edits what is served, in each third of the schedules.
    Editor,
}

/// All of them.
pub static ALL: &[Regression] = &[
    found(
        &broadcast_job::KIND,
        702_262,
        "a pod started while it was given up, succeeded, and was recorded as Failed",
    ),
    found(
        &broadcast_job::KIND,
        706_573,
        "AtMostOnce, and a second pod where the first may have run",
    ),
    found(
        &broadcast_job::KIND,
        707_554,
        "a creation that had waited made a second pod of an attempt that was over",
    ),
    found(
        &broadcast_job::KIND,
        64_156_039,
        "the proof counted a pod that was deleted before it was bound",
    ),
    beside_an_editor(
        &broadcast_job::KIND,
        559_312_205,
        "a failed node whose further attempt was taken back as its job failed was counted nowhere",
    ),
    beside_an_editor(
        &broadcast_job::KIND,
        559_312_696,
        "a job was Complete and counted a node as waiting for a retry",
    ),
    beside_an_editor(
        &broadcast_job::KIND,
        286_748_062,
        "a status that only told of a refusal was asked how many pods are active",
    ),
    beside_an_editor(
        &broadcast_job::KIND,
        91_996_291,
        "two of four nodes were gone, unheard of, and a percentage was of two",
    ),
    beside_an_editor(
        &broadcast_job::KIND,
        91_998_138,
        "a failure was accepted on a node that was gone, and counted beside those that were told",
    ),
    beside_an_editor(
        &broadcast_job::KIND,
        337_877_230,
        "a log was sealed by who had not heard that its last failed node was to be tried again",
    ),
    beside_an_editor(
        &broadcast_job::KIND,
        694_790_412,
        "a percentage was raised after nodes had gone: S3 did not know that the nodes may be seen later",
    ),
    beside_an_editor(
        &broadcast_job::KIND,
        273_896_538,
        "an attempt that was asked for was interrupted and tried again: S2 knew of no request any more",
    ),
    found(
        &cron_job::KIND,
        273_893_876,
        "two leaders, one clock ahead: a run was created as the other one took back its promise",
    ),
    beside_an_editor(&cron_job::KIND, 273_896_158, "the same as 273893876"),
    found(
        &cron_job::KIND,
        10_557_443,
        "a run was created a second and more after its promise had been confirmed",
    ),
    beside_a_tenant(
        &cron_job::KIND,
        10_556_148,
        "three leaders at once write four times for a run each: S18 took that for a loop",
    ),
    beside_an_editor(
        &job::KIND,
        10_552_049,
        "a Job was resumed, and nobody knew of a pod that was created: another one was made under another name",
    ),
    beside_a_tenant(&job::KIND, 10_548_879, "the same as 10552049"),
    beside_an_editor(
        &job::KIND,
        501_669_964,
        "a success policy was met, and fewer completions cut the index that had met it",
    ),
    found(
        &cron_job::KIND,
        501_195,
        "a node that became unfit before its job came, and was seen so later",
    ),
    found(
        &cron_job::KIND,
        704_447,
        "a pod was created in the moment in which its job went",
    ),
    found(
        &broadcast_job::KIND,
        201_731_461,
        "a job that misses results kept all its counts but that of interruptions",
    ),
    found(
        &broadcast_job::KIND,
        884_868_443,
        "a retry was deleted in the moment in which its next pod was reserved: S3 did not know its slice any more",
    ),
    found(
        &broadcast_job::KIND,
        184_051_027,
        "what was remembered of the pods of a deleted retry was not in the flight record",
    ),
    found(
        &broadcast_job::KIND,
        184_054_126,
        "a pod whose reservation was withdrawn in the moment of its creation was stopped, and S12 did not know that",
    ),
    beside_a_tenant(
        &broadcast_job::KIND,
        184_055_151,
        "what was remembered of the pods of a deleted retry was not in the flight record",
    ),
    beside_a_tenant(
        &cron_job::KIND,
        184_050_735,
        "a pod lost the label of a job that was gone, and was released by who had still seen it: S18 did not know the label",
    ),
    beside_a_tenant(
        &broadcast_job::KIND,
        884_872_134,
        "a template that was asked about under a full quota was said to be invalid by one leader only",
    ),
    beside_a_tenant(
        &broadcast_job::KIND,
        356_880_783,
        "whose a pod is that was taken from its job depended on what was seen first",
    ),
    beside_a_tenant(
        &cron_job::KIND,
        308_459_169,
        "a run that looks like ours has another controller: S18 asked that it stays held for ever",
    ),
    beside_a_tenant(
        &job::KIND,
        76_333_524,
        "a pod that has an owner and no controller may be adopted: the decision was made again without it",
    ),
    beside_a_tenant(
        &cron_job::KIND,
        229_288_347,
        "three processes began their watches again as connections broke: S18 took that for a loop",
    ),
    found(
        &job::KIND,
        500_792,
        "Complete with 5 of 6 successes: a pod that counted as failed succeeded after all",
    ),
    found(
        &job::KIND,
        501_095,
        "failedIndexes is empty when the Job has failed: it has fewer completions by then",
    ),
    found(&job::KIND, 501_106, "the same as 501095"),
    found(
        &job::KIND,
        501_345,
        "fewer failures than the limit: those of indexes that the Job has no more are not counted",
    ),
    found(
        &job::KIND,
        700_034,
        "a new leader did not know a pod that it counted",
    ),
    found(
        &job::KIND,
        704_065,
        "a new leader listed a pod that was counted",
    ),
    found(&job::KIND, 704_701, "the same as 704065"),
    found(
        &job::KIND,
        707_837,
        "a work queue was Complete without a success: as 500792",
    ),
    found(
        &broadcast_job::KIND,
        878_429_297,
        "three leaders without a lease told and denied a refusal without end that was long over",
    ),
    found(
        &job::KIND,
        606_000_592,
        "the oracle missed a success that met the policy and that fewer completions cut",
    ),
    beside_a_tenant(
        &broadcast_job::KIND,
        423_180_207,
        "four retries asked for a pod every ten seconds that only its user can delete",
    ),
    found(
        &job::KIND,
        1_001_339,
        "a new leader removed a pod that had succeeded",
    ),
    beside_a_tenant(
        &daemon_set::KIND,
        937_746_339,
        "a status for each of four things that were seen late, one after the other: the proof was wrong",
    ),
];

/// The cases of a kind.
pub fn of(kind: &'static ProvedKind) -> impl Iterator<Item = Case> {
    let of = ALL.iter().filter(move |known| ptr::eq(known.kind, kind));
    of.map(|known| {
        let without = || known.kind.case_without_edits(known.seed);
        match known.beside {
            Beside::Nobody => without(),
            Beside::Tenant => swarm::beside_a_tenant(without()),
            Beside::Editor => known.kind.case_with_edits(known.seed),
        }
    })
}

const fn found(kind: &'static ProvedKind, seed: u64, found: &'static str) -> Regression {
    Regression {
        kind,
        seed,
        beside: Beside::Nobody,
        found,
    }
}

const fn beside_a_tenant(kind: &'static ProvedKind, seed: u64, found: &'static str) -> Regression {
    Regression {
        beside: Beside::Tenant,
        ..self::found(kind, seed, found)
    }
}

const fn beside_an_editor(kind: &'static ProvedKind, seed: u64, found: &'static str) -> Regression {
    Regression {
        beside: Beside::Editor,
        ..self::found(kind, seed, found)
    }
}
