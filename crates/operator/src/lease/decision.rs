//! What to do about a lease as last seen, and what to write; pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

use super::settings::Settings;
use crate::clock::BootTime;

/// A lease as last read, and when we first saw it like that.
#[derive(Clone, Debug)]
pub struct Seen {
    lease: Lease,
    since: BootTime,
}

impl Seen {
    /// Takes `lease`, read at `now`, into account. The clock of the holder starts anew only when
    /// the record changed; a change of labels is not a sign of life.
    pub fn update(earlier: Option<Self>, lease: Lease, now: BootTime) -> Self {
        let sign_of_life = |lease: &Lease| {
            lease.spec.as_ref().map(|spec| {
                (
                    spec.holder_identity.clone(),
                    spec.renew_time.clone(),
                    spec.lease_transitions,
                )
            })
        };
        let since = match earlier {
            Some(seen) if sign_of_life(&seen.lease) == sign_of_life(&lease) => seen.since,
            _ => now,
        };
        Self { lease, since }
    }

    /// The version of the lease, which only grows as long as the API server keeps what it was told.
    pub(super) fn version(&self) -> Option<u64> {
        self.lease
            .metadata
            .resource_version
            .as_deref()?
            .parse()
            .ok()
    }

    pub(super) fn holder(&self) -> &str {
        self.lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref())
            .unwrap_or("")
    }

    /// How long the holder may be silent: its own word, or ours when it gave none.
    fn duration(&self, ours: Duration) -> Duration {
        self.lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds)
            .filter(|seconds| *seconds > 0)
            .map_or(ours, |seconds| {
                Duration::from_secs(seconds.unsigned_abs().into())
            })
    }
}

/// What to do about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is none: create it.
    Create,
    /// It is free or has run out: take it.
    Take,
    /// It is ours: renew it.
    Renew,
    /// Another process holds it.
    Wait,
    /// We led, and another process holds it, or it is gone.
    Lost,
}

/// Decides on the lease as last seen; pure.
pub fn decide(
    seen: Option<&Seen>,
    identity: &str,
    leading: bool,
    now: BootTime,
    ours: Duration,
) -> Decision {
    let Some(seen) = seen else {
        // Somebody deleted it, so that another process leads; or a backup has never known it.
        return if leading {
            Decision::Lost
        } else {
            Decision::Create
        };
    };
    match seen.holder() {
        "" => Decision::Take,
        holder if holder == identity => Decision::Renew,
        _ if leading => Decision::Lost,
        _ if now.since(seen.since) >= seen.duration(ours) => Decision::Take,
        _ => Decision::Wait,
    }
}

/// The lease to write for `decision`, carrying the resourceVersion of what was seen.
pub(super) fn next(
    seen: Option<&Seen>,
    taken: bool,
    now: Timestamp,
    identity: &str,
    settings: &Settings,
) -> Lease {
    let now = MicroTime(now);
    let mut lease = seen.map_or_else(
        || Lease {
            metadata: ObjectMeta {
                name: Some(settings.name.clone()),
                namespace: Some(settings.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        },
        |seen| seen.lease.clone(),
    );
    lease.metadata.managed_fields = None;
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    if taken {
        // Counts changes of hands; a lease that is new has changed none.
        spec.lease_transitions =
            Some(seen.map_or(0, |_| spec.lease_transitions.unwrap_or(0).saturating_add(1)));
        spec.acquire_time = Some(now.clone());
    }
    spec.holder_identity = Some(identity.to_owned());
    spec.lease_duration_seconds = Some(settings.duration.as_secs().max(1) as i32);
    spec.renew_time = Some(now);
    lease
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::tests::held_by;

    const S: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> BootTime {
        BootTime::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn decisions() {
        let seen = |holder: &str| Some(Seen::update(None, held_by(holder, 1), at(100)));
        for (name, seen, leading, now, expected) in [
            ("no lease", None, false, 100, Decision::Create),
            ("no lease any more", None, true, 100, Decision::Lost),
            ("released", seen(""), false, 100, Decision::Take),
            ("ours", seen("me"), true, 100, Decision::Renew),
            (
                "ours, reply was lost",
                seen("me"),
                false,
                100,
                Decision::Renew,
            ),
            ("other, alive", seen("you"), false, 114, Decision::Wait),
            ("other, silent", seen("you"), false, 115, Decision::Take),
            (
                "other, while we led",
                seen("you"),
                true,
                200,
                Decision::Lost,
            ),
        ] {
            let decision = decide(seen.as_ref(), "me", leading, at(now), 3 * S);
            assert_eq!(decision, expected, "{name}");
        }
    }

    #[test]
    fn a_holder_lives_as_long_as_its_record_changes() {
        let seen = Seen::update(None, held_by("you", 1), at(100));
        let same = Seen::update(Some(seen), held_by("you", 1), at(110));
        assert_eq!(same.since, at(100));
        let mut labelled = held_by("you", 1);
        labelled.metadata.resource_version = Some("7".into());
        let same = Seen::update(Some(same), labelled, at(112));
        assert_eq!(same.since, at(100), "a label is no sign of life");
        // However wrong the holder's clock is.
        let renewed = Seen::update(Some(same), held_by("you", -5), at(113));
        assert_eq!(renewed.since, at(113));
    }
}
