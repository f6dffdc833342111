//! Leader election over a `coordination.k8s.io/v1` Lease.
//!
//! Every change of the lease is a POST, or a PUT that carries the resourceVersion it was decided
//! on, so two candidates cannot both win. Another holder's expiry is judged by our own monotonic
//! clock since its record last changed; clocks of other machines are never compared.
//!
//! The election runs on a thread of its own with its own connection: a busy planner cannot delay
//! a renewal. It publishes [`Leadership`], which says until when writes may be sent. Leadership is
//! for efficiency: safety comes from names, uids and resourceVersions.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    api_client::{CallError, Transport},
    args,
    metrics::Metrics,
};

/// An instant of the monotonic clock that also runs while the machine sleeps (CLOCK_BOOTTIME):
/// a lease runs out no matter why we did not renew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    /// Now.
    pub fn now() -> Self {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(Duration::new(
            t.tv_sec.unsigned_abs(),
            t.tv_nsec.unsigned_abs() as u32,
        ))
    }

    /// This instant `later`.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }

    /// Time from `earlier` to this instant; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Whether this process leads, and until when it may send writes. Clones share the answer.
#[derive(Clone)]
pub struct Leadership(Arc<Shared>);

struct Shared {
    /// Nanoseconds of [`BootTime`]; 0 while not leading, `u64::MAX` without election.
    valid_until: AtomicU64,
    phase: watch::Sender<Phase>,
}

/// Where this process is in the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Another process leads, or none yet.
    Standby,
    /// This process leads.
    Leading,
    /// It led or stood by, and never will again: lost, released or stopped.
    Over,
}

impl Leadership {
    /// Leadership not gained yet: nothing may be sent.
    pub fn standby() -> Self {
        Self(Arc::new(Shared {
            valid_until: AtomicU64::new(0),
            phase: watch::Sender::new(Phase::Standby),
        }))
    }

    /// Leadership without election (`--leader-elect=false`): valid for ever.
    pub fn always() -> Self {
        let leadership = Self::standby();
        leadership.extend(BootTime(Duration::MAX));
        leadership
    }

    /// The instant until which writes may be sent; `None` when not leading.
    ///
    /// It is the time the last successful renewal was *sent* plus the renew deadline. Others take
    /// over at the earliest one lease duration after that, so what was sent at the last moment
    /// still has `lease duration − renew deadline` to arrive.
    pub fn valid_until(&self) -> Option<BootTime> {
        match self.0.valid_until.load(Ordering::Acquire) {
            0 => None,
            nanos => Some(BootTime(Duration::from_nanos(nanos))),
        }
    }

    /// Whether a write may be sent at `now`.
    pub fn is_leader_at(&self, now: BootTime) -> bool {
        now.nanos() < self.0.valid_until.load(Ordering::Acquire)
    }

    /// Whether a write may be sent now.
    pub fn is_leader(&self) -> bool {
        self.is_leader_at(BootTime::now())
    }

    /// Where this process is in the election.
    pub fn phase(&self) -> Phase {
        *self.0.phase.borrow()
    }

    /// Waits until this process leads; false when it never will.
    pub async fn wait_leader(&self) -> bool {
        let mut phase = self.0.phase.subscribe();
        phase
            .wait_for(|phase| *phase != Phase::Standby)
            .await
            .is_ok_and(|phase| *phase == Phase::Leading)
    }

    /// Waits until leadership is lost, released or stopped; for ever without election.
    pub async fn over(&self) {
        let mut phase = self.0.phase.subscribe();
        // The sender lives as long as `self`: an error cannot happen, and would mean over.
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
    }

    fn extend(&self, until: BootTime) {
        self.0.valid_until.store(until.nanos(), Ordering::Release);
        self.0.phase.send_if_modified(|phase| {
            let changed = *phase != Phase::Leading;
            *phase = Phase::Leading;
            changed
        });
    }

    /// From here on nothing is sent any more.
    fn end(&self) {
        self.0.valid_until.store(0, Ordering::Release);
        self.0.phase.send_replace(Phase::Over);
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leadership({:?})", self.phase())
    }
}

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

    fn holder(&self) -> &str {
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
    /// We led, and another process holds it.
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
        return Decision::Create;
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
fn next(seen: Option<&Seen>, taken: bool, identity: &str, settings: &Settings) -> Lease {
    let now = MicroTime(jiff::Timestamp::now());
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

/// Which lease, and its times; see [`args::Lease`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// How long others wait after the last renewal before they take over.
    pub duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Pause between tries; each is longer by a random part of up to a fifth.
    pub retry_period: Duration,
}

impl Settings {
    /// The settings of the flags; `default_namespace` is the client's.
    pub fn new(lease: &args::Lease, default_namespace: &str) -> Self {
        Self {
            namespace: lease
                .namespace
                .clone()
                .unwrap_or_else(|| default_namespace.to_owned()),
            name: lease.name.clone(),
            duration: lease.duration,
            renew_deadline: lease.renew_deadline,
            retry_period: lease.retry_period,
        }
    }

    /// A renewal that hangs must leave time for another one.
    fn call_timeout(&self) -> Duration {
        (self.renew_deadline / 2).min(Duration::from_secs(5))
    }

    fn pause(&self) -> Duration {
        self.retry_period.mul_f64(1.0 + 0.2 * fastrand::f64())
    }
}

/// Who we are: host name and a random part, so that a restarted pod is somebody else.
pub fn identity() -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let mut random = [0_u8; 16];
    // getrandom cannot fail for 16 bytes once the machine is up; the process id is better than
    // nothing if it does.
    let read = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    if read != Ok(random.len()) {
        random[..4].copy_from_slice(&std::process::id().to_be_bytes());
    }
    format!("{host}_{:032x}", u128::from_be_bytes(random))
}

/// Where leases are kept.
pub trait Leases {
    /// The lease, or `None` when there is none.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, CallError>>;
    /// Creates the lease; 409 when it exists.
    fn create(&self, lease: &Lease) -> impl Future<Output = Result<Lease, CallError>>;
    /// Replaces the lease; 409 when its resourceVersion is not the current one.
    fn replace(&self, lease: &Lease) -> impl Future<Output = Result<Lease, CallError>>;
}

/// Leases of a real API server.
struct ApiLeases {
    transport: Transport,
    path: String,
    name: String,
    timeout: Duration,
}

impl ApiLeases {
    fn new(transport: Transport, settings: &Settings) -> Self {
        Self {
            transport,
            path: format!(
                "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
                settings.namespace
            ),
            name: settings.name.clone(),
            timeout: settings.call_timeout(),
        }
    }

    async fn call(
        &self,
        method: http::Method,
        path: &str,
        lease: Option<&Lease>,
    ) -> Result<Lease, CallError> {
        let body = lease
            .map(serde_json::to_vec)
            .transpose()
            .map_err(|e| CallError::Failed(e.to_string()))?
            .unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|e| CallError::Failed(e.to_string()))?;
        let reply = self.transport.unary(request, self.timeout).await?;
        serde_json::from_slice(&reply).map_err(|e| CallError::Failed(format!("lease: {e}")))
    }
}

impl Leases for ApiLeases {
    async fn get(&self) -> Result<Option<Lease>, CallError> {
        let path = format!("{}/{}", self.path, self.name);
        match self.call(http::Method::GET, &path, None).await {
            Ok(lease) => Ok(Some(lease)),
            Err(CallError::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, CallError> {
        self.call(http::Method::POST, &self.path, Some(lease)).await
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, CallError> {
        let path = format!("{}/{}", self.path, self.name);
        self.call(http::Method::PUT, &path, Some(lease)).await
    }
}

/// The running election.
#[derive(Debug)]
pub struct Elector {
    leadership: Leadership,
    stop: CancellationToken,
    thread: std::thread::JoinHandle<()>,
}

impl Elector {
    /// Starts the election on its own thread.
    ///
    /// `transport` must not be used by anything else: its connections live on that thread.
    /// `on_lost` is called on that thread, with the reason, when leadership is lost; the process
    /// must then exit, since it may be in the middle of anything.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be created.
    pub fn start(
        transport: Transport,
        settings: Settings,
        identity: String,
        metrics: &Metrics,
        on_lost: impl FnOnce(&str) + Send + 'static,
    ) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let leadership = Leadership::standby();
        let stop = CancellationToken::new();
        let gauge = metrics.leader.with_label_values(&[&settings.name]);
        let elected = leadership.clone();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || {
                let leases = ApiLeases::new(transport, &settings);
                let election = Election {
                    leases,
                    settings,
                    identity,
                    leadership: elected.clone(),
                    on_change: move |leads| gauge.set(i64::from(leads)),
                };
                // A thread that dies silently would leave a process that stands by for ever.
                let ended = std::panic::catch_unwind(AssertUnwindSafe(|| {
                    runtime.block_on(election.run(stopped))
                }))
                .unwrap_or_else(|_| Ended::Lost("the election panicked".to_owned()));
                elected.end();
                if let Ended::Lost(reason) = ended {
                    on_lost(&reason);
                }
            })?;
        Ok(Self {
            leadership,
            stop,
            thread,
        })
    }

    /// Whether this process leads.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Gives the lease back if it is held, so that another process leads at once. No write may be
    /// in flight any more. Returns when done, at the latest after one call timeout.
    pub async fn release(self) {
        self.stop.cancel();
        // The join blocks for at most one API call.
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }
}

/// How an election ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// It was stopped; the lease was given back if it was held.
    Stopped,
    /// The lease was lost, and why.
    Lost(String),
}

struct Election<L, F> {
    leases: L,
    settings: Settings,
    identity: String,
    leadership: Leadership,
    on_change: F,
}

impl<L: Leases, F: Fn(bool)> Election<L, F> {
    async fn run(self, stop: CancellationToken) -> Ended {
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
        loop {
            // A try is never cut off: it would leave us not knowing which record is ours. A leader
            // that cannot finish it by its deadline is over anyway.
            let try_once = self.try_once(&mut seen, &mut current, renewed.is_some());
            let tried = match renewed {
                None => try_once.await,
                Some(sent) => tokio::time::timeout(self.left(sent), try_once)
                    .await
                    .unwrap_or(Ok(None)),
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
                Err(TryError::Taken(holder)) => {
                    return Ended::Lost(format!("{holder} holds the lease"));
                }
                Err(TryError::Call(error)) => {
                    tracing::warn!(%error, leading = renewed.is_some(), "lease call failed");
                }
            }
            let mut pause = self.settings.pause();
            if let Some(sent) = renewed {
                let left = self.left(sent);
                // Also true after this process was stopped or the machine slept.
                if left.is_zero() {
                    return Ended::Lost(format!(
                        "not renewed for {:.1} s, the deadline is {:.1} s",
                        BootTime::now().since(sent).as_secs_f64(),
                        self.settings.renew_deadline.as_secs_f64()
                    ));
                }
                pause = pause.min(left);
            }
            if stop.is_cancelled() {
                self.leadership.end();
                if renewed.is_some() {
                    self.give_back(seen).await;
                }
                return Ended::Stopped;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Time until a leader whose last renewal was sent at `sent` is over.
    fn left(&self, sent: BootTime) -> Duration {
        self.settings
            .renew_deadline
            .saturating_sub(BootTime::now().since(sent))
    }

    /// One try. `Ok(Some(t))`: the lease is ours, by a request sent at `t`.
    async fn try_once(
        &self,
        seen: &mut Option<Seen>,
        current: &mut bool,
        leading: bool,
    ) -> Result<Option<BootTime>, TryError> {
        // What we wrote last is usually still there: renew it without reading it. The second
        // round reads, after a refusal.
        for _ in 0..2 {
            if !std::mem::take(current) {
                match self.leases.get().await? {
                    Some(lease) => {
                        *seen = Some(Seen::update(seen.take(), lease, BootTime::now()));
                    }
                    None => *seen = None,
                }
            }
            let sent = BootTime::now();
            let decision = decide(
                seen.as_ref(),
                &self.identity,
                leading,
                sent,
                self.settings.duration,
            );
            let written = match decision {
                Decision::Wait => return Ok(None),
                Decision::Lost => {
                    let holder = seen.as_ref().map_or("", Seen::holder).to_owned();
                    return Err(TryError::Taken(holder));
                }
                Decision::Create => {
                    let lease = next(None, true, &self.identity, &self.settings);
                    self.leases.create(&lease).await
                }
                Decision::Take | Decision::Renew => {
                    let taken = decision == Decision::Take;
                    let lease = next(seen.as_ref(), taken, &self.identity, &self.settings);
                    self.leases.replace(&lease).await
                }
            };
            match written {
                Ok(lease) => {
                    *seen = Some(Seen::update(seen.take(), lease, BootTime::now()));
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

    /// Writes an empty holder, if the lease is still ours.
    async fn give_back(&self, mut seen: Option<Seen>) {
        let refused = loop {
            let Some(ours) = seen.take().filter(|seen| seen.holder() == self.identity) else {
                break "another process has it".to_owned();
            };
            let mut lease = next(Some(&ours), false, "", &self.settings);
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
                            seen = lease.map(|lease| Seen::update(None, lease, BootTime::now()));
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
    /// By this holder, while we led.
    Taken(String),
    Call(CallError),
}

impl From<CallError> for TryError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

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

    fn at(seconds: u64) -> BootTime {
        BootTime(Duration::from_secs(seconds))
    }

    fn held_by(holder: &str, renewed: i64) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(15),
                renew_time: Some(MicroTime(jiff::Timestamp::from_second(renewed).unwrap())),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[test]
    fn decisions() {
        let seen = |holder: &str| Some(Seen::update(None, held_by(holder, 1), at(100)));
        for (name, seen, leading, now, expected) in [
            ("no lease", None, false, 100, Decision::Create),
            ("no lease any more", None, true, 100, Decision::Create),
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

    #[test]
    fn without_election_writes_are_always_valid() {
        let always = Leadership::always();
        assert!(always.is_leader());
        assert!(always.is_leader_at(at(1_000_000_000)));
        assert_eq!(always.phase(), Phase::Leading);
    }

    #[test]
    fn identities_differ() {
        assert_ne!(identity(), identity());
        assert!(identity().contains('_'));
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
        let leadership = Leadership::standby();
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

    #[tokio::test]
    async fn one_of_two_leads_and_its_release_hands_over_at_once() {
        let leases = Memory::default();
        let (a, stop_a, task_a) = candidate(&leases, "a");
        assert!(a.wait_leader().await);
        let (b, _stop_b, _task_b) = candidate(&leases, "b");
        tokio::time::sleep(S / 2).await;
        assert!(a.is_leader() && !b.is_leader());
        stop_a.cancel();
        assert_eq!(task_a.await.unwrap(), Ended::Stopped);
        assert!(!a.is_leader());
        tokio::time::timeout(S, b.wait_leader()).await.unwrap();
        assert_eq!(leases.holder(), "b");
        let transitions = leases.0.lock().unwrap().0.clone().unwrap().spec.unwrap();
        assert_eq!(transitions.lease_transitions, Some(1));
    }

    #[tokio::test]
    async fn a_leader_that_cannot_renew_is_over_before_others_take_over() {
        let leases = Memory::default();
        let (a, _stop, task) = candidate(&leases, "a");
        assert!(a.wait_leader().await);
        leases.0.lock().unwrap().2 = true;
        let begin = std::time::Instant::now();
        let ended = task.await.unwrap();
        assert!(
            matches!(&ended, Ended::Lost(why) if why.contains("deadline")),
            "{ended:?}"
        );
        assert!(begin.elapsed() < 3 * S);
        assert!(!a.is_leader());
        a.over().await;
    }

    #[tokio::test]
    async fn a_leader_whose_lease_was_taken_is_over_at_once() {
        let leases = Memory::default();
        let (a, _stop, task) = candidate(&leases, "a");
        assert!(a.wait_leader().await);
        leases.0.lock().unwrap().0 = Some(held_by("thief", 1));
        let ended = tokio::time::timeout(S, task).await.unwrap().unwrap();
        assert_eq!(ended, Ended::Lost("thief holds the lease".into()));
    }

    #[tokio::test]
    async fn a_leader_survives_foreign_edits_and_the_deletion_of_its_lease() {
        let leases = Memory::default();
        let (a, _stop, _task) = candidate(&leases, "a");
        assert!(a.wait_leader().await);
        {
            let mut state = leases.0.lock().unwrap();
            let lease = state.0.as_mut().unwrap();
            lease.metadata.resource_version = Some("edited".into());
        }
        tokio::time::sleep(S / 2).await;
        leases.0.lock().unwrap().0 = None;
        tokio::time::sleep(5 * S / 2).await;
        assert!(a.is_leader());
        assert_eq!(leases.holder(), "a");
    }

    #[tokio::test]
    async fn a_silent_holder_is_replaced_after_its_lease() {
        let leases = Memory::default();
        let mut dead = held_by("dead", 1);
        dead.spec.as_mut().unwrap().lease_duration_seconds = Some(1);
        leases.0.lock().unwrap().0 = Some(dead);
        let begin = std::time::Instant::now();
        let (a, _stop, _task) = candidate(&leases, "a");
        assert!(a.wait_leader().await);
        assert!(begin.elapsed() >= S);
        assert!(begin.elapsed() < 2 * S);
    }
}
