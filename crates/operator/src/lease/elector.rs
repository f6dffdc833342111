//! The thread the election runs on.

use std::panic::AssertUnwindSafe;

use tokio_util::sync::CancellationToken;

use super::{
    api::ApiLeases,
    election::{Election, Ended},
    leadership::Leadership,
    settings::Settings,
};
use crate::{clock::Clock, metrics::Metrics, transport::Transport};

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
        let leadership = Leadership::standby(Clock::system());
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

    /// Gives the lease back if it is held, so that another process leads at once, unless a write has no answer
    /// and may still be applied. None may be sent any more. Returns when done, at the latest after two call timeouts.
    pub async fn release(self) {
        self.stop.cancel();
        // The join blocks for two API calls at most.
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }
}

/// An election on the caller's own tasks, for a simulated cluster. The second part runs it until
/// `stop` or until leadership is lost, and returns why it was lost.
pub fn elect_here(
    transport: Transport,
    settings: Settings,
    identity: String,
    clock: Clock,
    stop: CancellationToken,
) -> (Leadership, impl Future<Output = Option<String>>) {
    let leadership = Leadership::standby(clock);
    let election = Election {
        leases: ApiLeases::new(transport, &settings),
        settings,
        identity,
        leadership: leadership.clone(),
        on_change: |_| {},
    };
    let run = async move {
        match election.run(stop).await {
            Ended::Stopped => None,
            Ended::Lost(reason) => Some(reason),
        }
    };
    (leadership, run)
}
