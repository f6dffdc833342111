//! The election itself: try, renew, give back.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    api::Leases,
    decision::{Decision, Seen, decide, next},
    leadership::{Candidacy, Leadership},
    settings::Settings,
};
use crate::{clock::BootTime, transport::CallError};

/// How an election ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was stopped; the lease was given back if it was held and nothing that was sent may still be applied.
    Stopped,
    /// The lease was lost, and why.
    Lost(String),
}

pub(super) struct Election<L, F> {
    pub(super) leases: L,
    pub(super) settings: Settings,
    pub(super) identity: String,
    pub(super) leadership: Leadership,
    pub(super) on_change: F,
}

impl<L: Leases, F: Fn(bool)> Election<L, F> {
    pub(super) async fn run(self, stop: CancellationToken) -> Ended {
        let ended = self.elect(&stop).await;
        self.leadership.end();
        (self.on_change)(false);
        ended
    }

    async fn elect(&self, stop: &CancellationToken) -> Ended {
        let mut seen: Option<Seen> = None;
        // When the last successful renewal was sent; `Some` while leading.
        let mut renewed: Option<BootTime> = None;
        // Whether `seen` is the reply to our last write, so that it need not be read again.
        let mut current = false;
        // Since when it could be taken, and nobody has taken it.
        let mut free: Option<BootTime> = None;
        loop {
            let candidacy = self.leadership.candidacy();
            // Whoever goes on does not cut a try off: it would not know which record is its own.
            let try_once = self.try_once(&mut seen, &mut current, &mut free, renewed.is_some());
            let tried = tokio::select! {
                biased;
                tried = try_once => tried,
                () = self.too_late(renewed, stop) => Ok(None),
            };
            match tried {
                Ok(Some(sent)) => {
                    if renewed.is_none() {
                        tracing::info!(identity = self.identity, "leading");
                        (self.on_change)(true);
                    }
                    renewed = Some(sent);
                    self.leadership
                        .extend(sent.after(self.settings.renew_deadline));
                }
                Ok(None) => {}
                Err(TryError::Lost(why)) => return Ended::Lost(why),
                Err(TryError::Call(error)) => {
                    tracing::warn!(%error, leading = renewed.is_some(), "lease call failed");
                    self.leadership.suspend();
                }
            }
            let mut pause = self.settings.pause();
            if let Some(sent) = renewed {
                let left = self.left(sent);
                // Also true after this process was stopped or the machine slept.
                if left.is_zero() {
                    return Ended::Lost(format!(
                        "not renewed for {:.1} s, the deadline is {:.1} s",
                        self.leadership.clock().boot().since(sent).as_secs_f64(),
                        self.settings.renew_deadline.as_secs_f64()
                    ));
                }
                pause = pause.min(left);
            }
            if stop.is_cancelled() {
                self.leadership.end();
                if renewed.is_some() {
                    let back = self.give_back(seen);
                    if timeout(self.settings.call_timeout(), back).await.is_err() {
                        tracing::warn!(
                            "lease not given back in time, others wait until it runs out"
                        );
                    }
                }
                return Ended::Stopped;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.leadership.stands_more_than(candidacy) => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// When a try is of no use any more: a leader is over by then, or this process has to end.
    async fn too_late(&self, renewed: Option<BootTime>, stop: &CancellationToken) {
        let stopped = async {
            stop.cancelled().await;
            sleep(self.settings.call_timeout()).await;
        };
        match renewed {
            None => stopped.await,
            Some(sent) => drop(timeout(self.left(sent), stopped).await),
        }
    }

    /// Time until a leader whose last renewal was sent at `sent` is over.
    fn left(&self, sent: BootTime) -> Duration {
        self.settings
            .renew_deadline
            .saturating_sub(self.leadership.clock().boot().since(sent))
    }

    /// One try. `Ok(Some(t))`: the lease is ours, by a request sent at `t`.
    async fn try_once(
        &self,
        seen: &mut Option<Seen>,
        current: &mut bool,
        free: &mut Option<BootTime>,
        leading: bool,
    ) -> Result<Option<BootTime>, TryError> {
        // What we wrote last is usually still there: renew it without reading it. The second
        // round reads, after a refusal.
        for _ in 0..2 {
            if !std::mem::take(current) {
                let newest = seen.as_ref().and_then(Seen::version);
                let lease = self.leases.get().await?;
                let now = self.leadership.clock().boot();
                *seen = lease.map(|lease| Seen::update(seen.take(), lease, now));
                // What this process remembers is of a history that nobody else knows any more.
                let version = seen.as_ref().and_then(Seen::version);
                if leading && version < newest && version.is_some() {
                    return Err(TryError::Lost(
                        "the lease is older than it was: the API server was restored from a backup"
                            .to_owned(),
                    ));
                }
            }
            let sent = self.leadership.clock().boot();
            let decision = decide(
                seen.as_ref(),
                &self.identity,
                leading,
                sent,
                self.settings.duration,
            );
            let is_free = matches!(decision, Decision::Create | Decision::Take);
            *free = is_free.then(|| free.unwrap_or(sent));
            let written = match decision {
                Decision::Wait => return Ok(None),
                // It looks on meanwhile, so that it knows for how long the lease has not been renewed.
                Decision::Create | Decision::Take if !self.would_lead(*free, sent) => {
                    return Ok(None);
                }
                Decision::Lost => {
                    let why = seen.as_ref().map_or_else(
                        || "the lease is gone".to_owned(),
                        |seen| format!("{} holds the lease", seen.holder()),
                    );
                    return Err(TryError::Lost(why));
                }
                Decision::Create => {
                    let now = self.leadership.clock().now();
                    let lease = next(None, true, now, &self.identity, &self.settings);
                    self.leases.create(&lease).await
                }
                Decision::Take | Decision::Renew => {
                    let taken = decision == Decision::Take;
                    let now = self.leadership.clock().now();
                    let lease = next(seen.as_ref(), taken, now, &self.identity, &self.settings);
                    self.leases.replace(&lease).await
                }
            };
            match written {
                Ok(lease) => {
                    *seen = Some(Seen::update(
                        seen.take(),
                        lease,
                        self.leadership.clock().boot(),
                    ));
                    *current = true;
                    return Ok(Some(sent));
                }
                // Somebody else wrote it, or it is gone: look again.
                Err(CallError::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Whether this process would take a lease that is free since then. One that could do a part of the work leaves it
    /// for a while to those that may do all.
    fn would_lead(&self, free: Option<BootTime>, now: BootTime) -> bool {
        match self.leadership.candidacy() {
            Candidacy::No => false,
            Candidacy::IfNobodyElse => {
                free.is_some_and(|free| now.since(free) >= 2 * self.settings.duration)
            }
            Candidacy::Yes => true,
        }
    }

    /// Writes an empty holder, if the lease is still ours and nobody has to wait for what we have sent.
    async fn give_back(&self, mut seen: Option<Seen>) {
        let refused = loop {
            if !self.leadership.may_be_given_back() {
                break "a write without an answer may still be applied".to_owned();
            }
            let Some(ours) = seen.take().filter(|seen| seen.holder() == self.identity) else {
                break "another process has it".to_owned();
            };
            let now = self.leadership.clock().now();
            let mut lease = next(Some(&ours), false, now, "", &self.settings);
            if let Some(spec) = &mut lease.spec {
                // What client-go writes on release: nobody has to wait for nobody.
                spec.lease_duration_seconds = Some(1);
            }
            match self.leases.replace(&lease).await {
                Ok(_) => {
                    tracing::info!("lease given back");
                    return;
                }
                // Edited meanwhile, or a renewal whose reply was lost: look and try again. Each
                // round needs another foreign write, so this ends.
                Err(CallError::Api(status)) if status.code == 409 => {
                    match self.leases.get().await {
                        Ok(lease) => {
                            seen = lease.map(|lease| {
                                Seen::update(None, lease, self.leadership.clock().boot())
                            });
                        }
                        Err(error) => break error.to_string(),
                    }
                }
                Err(error) => break error.to_string(),
            }
        };
        tracing::warn!(
            refused,
            "lease not given back, others wait until it runs out"
        );
    }
}

enum TryError {
    /// While we led, and why.
    Lost(String),
    Call(CallError),
}

impl From<CallError> for TryError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::coordination::v1::Lease;

    use super::*;
    use crate::{
        clock::Clock,
        lease::{Phase, tests::held_by},
    };

    const S: Duration = Duration::from_secs(1);

    fn settings() -> Settings {
        Settings {
            namespace: "ns".into(),
            name: "carillon".into(),
            duration: 3 * S,
            renew_deadline: 2 * S,
            retry_period: S / 10,
        }
    }

    /// Keeps one lease with compare-and-swap, and fails on request.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<(Option<Lease>, u64, bool)>>);

    impl Memory {
        fn write(&self, lease: &Lease, create: bool) -> Result<Lease, CallError> {
            let mut state = self.0.lock().unwrap();
            if state.2 {
                return Err(CallError::Failed("down".into()));
            }
            let version = |l: &Lease| l.metadata.resource_version.clone();
            let conflict = match (&state.0, create) {
                (None, create) => !create,
                (Some(_), true) => true,
                (Some(old), false) => version(old) != version(lease),
            };
            if conflict {
                return Err(CallError::Api(Box::new(
                    kube::core::Status::failure("conflict", "Conflict").with_code(409),
                )));
            }
            state.1 += 1;
            let mut lease = lease.clone();
            lease.metadata.resource_version = Some(state.1.to_string());
            state.0 = Some(lease.clone());
            Ok(lease)
        }

        fn holder(&self) -> String {
            let state = self.0.lock().unwrap();
            let spec = state.0.as_ref().and_then(|l| l.spec.clone());
            spec.and_then(|s| s.holder_identity).unwrap_or_default()
        }
    }

    impl Leases for Memory {
        async fn get(&self) -> Result<Option<Lease>, CallError> {
            let state = self.0.lock().unwrap();
            if state.2 {
                return Err(CallError::Failed("down".into()));
            }
            Ok(state.0.clone())
        }
        async fn create(&self, lease: &Lease) -> Result<Lease, CallError> {
            self.write(lease, true)
        }
        async fn replace(&self, lease: &Lease) -> Result<Lease, CallError> {
            self.write(lease, false)
        }
    }

    fn candidate(
        leases: &Memory,
        name: &str,
    ) -> (
        Leadership,
        CancellationToken,
        tokio::task::JoinHandle<Ended>,
    ) {
        let (leadership, stop, task) = onlooker(leases, name);
        leadership.stand(Candidacy::Yes);
        (leadership, stop, task)
    }

    /// Does not stand for election.
    fn onlooker(
        leases: &Memory,
        name: &str,
    ) -> (
        Leadership,
        CancellationToken,
        tokio::task::JoinHandle<Ended>,
    ) {
        let leadership = Leadership::standby(Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
        let stop = CancellationToken::new();
        let election = Election {
            leases: leases.clone(),
            settings: settings(),
            identity: name.into(),
            leadership: leadership.clone(),
            on_change: |_| {},
        };
        let task = tokio::spawn(election.run(stop.clone()));
        (leadership, stop, task)
    }

    /// Whether it comes to lead within ten lives of a lease.
    async fn leads(candidate: &Leadership) -> bool {
        let waits = timeout(30 * S, candidate.wait_leader());
        waits.await.unwrap_or(false)
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_two_leads_and_its_release_hands_over_at_once() {
        let leases = Memory::default();
        let (a, stop_a, task_a) = candidate(&leases, "a");
        assert!(leads(&a).await);
        let (b, _stop_b, _task_b) = candidate(&leases, "b");
        sleep(S / 2).await;
        assert!(a.is_leader() && !b.is_leader());
        stop_a.cancel();
        assert_eq!(task_a.await.unwrap(), Ended::Stopped);
        assert!(!a.is_leader());
        timeout(S, b.wait_leader()).await.unwrap();
        assert_eq!(leases.holder(), "b");
        let transitions = leases.0.lock().unwrap().0.clone().unwrap().spec.unwrap();
        assert_eq!(transitions.lease_transitions, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_stand_takes_no_lease_and_knows_when_it_runs_out() {
        let leases = Memory::default();
        let (a, _stop, _task) = onlooker(&leases, "a");
        sleep(S / 2).await;
        assert_eq!(leases.holder(), "", "a free one");
        let mut dead = held_by("dead", 1);
        dead.spec.as_mut().unwrap().lease_duration_seconds = Some(1);
        leases.0.lock().unwrap().0 = Some(dead);
        sleep(3 * S / 2).await;
        assert_eq!(leases.holder(), "dead", "one that has run out");
        a.stand(Candidacy::Yes);
        timeout(S / 2, a.wait_leader()).await.unwrap();
        assert_eq!(leases.holder(), "a", "it has seen for how long");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_runs_out_when_something_that_was_sent_may_still_be_applied() {
        let leases = Memory::default();
        let (a, stop, task) = candidate(&leases, "a");
        assert!(leads(&a).await);
        a.unanswered();
        stop.cancel();
        assert_eq!(task.await.unwrap(), Ended::Stopped);
        assert!(!a.is_leader());
        assert_eq!(leases.holder(), "a", "it is not given back");
        let (b, _stop, _task) = candidate(&leases, "b");
        assert!(leads(&b).await, "it has run out");
        assert_eq!(leases.holder(), "b");
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_cannot_renew_is_over_before_others_take_over() {
        let leases = Memory::default();
        let (a, _stop, task) = candidate(&leases, "a");
        assert!(leads(&a).await);
        leases.0.lock().unwrap().2 = true;
        let begin = tokio::time::Instant::now();
        let ended = timeout(30 * S, task).await.unwrap().unwrap();
        assert!(
            matches!(&ended, Ended::Lost(why) if why.contains("deadline")),
            "{ended:?}"
        );
        assert!(begin.elapsed() < 3 * S);
        assert!(!a.is_leader());
        a.over().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_sends_nothing_between_a_renewal_that_failed_and_one_that_succeeds() {
        let leases = Memory::default();
        let (a, _stop, _task) = candidate(&leases, "a");
        assert!(leads(&a).await);
        for fails in [true, false] {
            leases.0.lock().unwrap().2 = fails;
            let changes = async {
                while a.is_leader() == fails {
                    sleep(S / 100).await;
                }
            };
            timeout(30 * S, changes).await.unwrap();
            assert_eq!(a.phase(), Phase::Leading);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_whose_lease_was_taken_is_over_at_once() {
        let leases = Memory::default();
        let (a, _stop, task) = candidate(&leases, "a");
        assert!(leads(&a).await);
        leases.0.lock().unwrap().0 = Some(held_by("thief", 1));
        let ended = timeout(S, task).await.unwrap().unwrap();
        assert_eq!(ended, Ended::Lost("thief holds the lease".into()));
    }

    /// Somebody else writes the lease.
    fn edit(leases: &Memory, version: u64) {
        let mut state = leases.0.lock().unwrap();
        let lease = state.0.as_mut().unwrap();
        lease.metadata.resource_version = Some(version.to_string());
        state.1 = version;
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_survives_foreign_edits_of_its_lease() {
        let leases = Memory::default();
        let (a, _stop, _task) = candidate(&leases, "a");
        assert!(leads(&a).await);
        edit(&leases, 1000);
        sleep(5 * S / 2).await;
        assert!(a.is_leader());
        assert_eq!(leases.holder(), "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_whose_lease_is_older_than_it_was_or_gone_is_over_at_once() {
        let restored: fn(&Memory) = |leases| edit(leases, 1);
        let deleted: fn(&Memory) = |leases| leases.0.lock().unwrap().0 = None;
        for (what, why) in [(restored, "restored from a backup"), (deleted, "gone")] {
            let leases = Memory::default();
            let (a, _stop, task) = candidate(&leases, "a");
            assert!(leads(&a).await);
            sleep(S / 2).await;
            what(&leases);
            let ended = timeout(S, task).await.unwrap().unwrap();
            let Ended::Lost(found) = ended else {
                panic!("{ended:?}");
            };
            assert!(found.contains(why), "{found}");
            assert!(!a.is_leader());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_can_do_a_part_leaves_the_lease_to_those_who_can_do_all_but_not_for_ever() {
        let leases = Memory::default();
        let (a, _stop, _task) = onlooker(&leases, "a");
        a.stand(Candidacy::IfNobodyElse);
        sleep(S / 2).await;
        assert_eq!(leases.holder(), "", "it waits for others");
        let (b, stop, task) = candidate(&leases, "b");
        timeout(S, b.wait_leader()).await.unwrap();
        stop.cancel();
        task.await.unwrap();
        let begin = tokio::time::Instant::now();
        assert!(leads(&a).await);
        assert!(begin.elapsed() > 5 * S, "twice as long as a lease lives");
        assert_eq!(leases.holder(), "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_holder_is_replaced_after_its_lease() {
        let leases = Memory::default();
        let mut dead = held_by("dead", 1);
        dead.spec.as_mut().unwrap().lease_duration_seconds = Some(1);
        leases.0.lock().unwrap().0 = Some(dead);
        let begin = tokio::time::Instant::now();
        let (a, _stop, _task) = candidate(&leases, "a");
        assert!(leads(&a).await);
        assert!(begin.elapsed() >= S);
        assert!(begin.elapsed() < 2 * S);
    }
}
