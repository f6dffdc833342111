//! The process, on one screen: every part, in the order it is started.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use crate::args::Config;
use crate::clock::Clock;
use crate::controllers::Rules;
use crate::http::{self, Check, Heartbeat, Limits};
use crate::instance::{Instance, Surroundings};
use crate::kinds::{self, SERVED};
use crate::lease::{self, Elector, Leadership};
use crate::metrics::Metrics;
use crate::store;
use crate::transport::{self, BatchWindow, Transport, Watches};

/// Runs until `stop`, then finishes what is under way and gives the lease back. To be called
/// within a [`tokio::runtime::LocalRuntime`], of which `window` is.
pub async fn run(
    config: Config,
    window: BatchWindow,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let metrics = Metrics::new().context("metrics")?;
    let kube = transport::config(config.kubeconfig.as_deref()).await?;
    let identity = lease::identity();

    let elector = elect(&config, &kube, &identity, &metrics)?;
    let leadership = elector
        .as_ref()
        .map_or_else(|| Leadership::always(Clock::system()), Elector::leadership);
    let mut instance = Instance::start(
        &config,
        Surroundings {
            reads: Watches::connect(&kube, &metrics, &window)?,
            writes: Transport::connect(&kube, metrics.clone(), &window)?,
            leadership,
            identity: identity.clone(),
            metrics: metrics.clone(),
            rules: Rules::default(),
        },
    );
    serve(&config, &metrics, &mut instance)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), identity, http = %config.http_address, "started");

    let worked = instance.work(stop).await;
    if let Some(elector) = elector {
        elector.release().await;
    }
    tracing::info!("stopped");
    // So that it is started anew.
    Ok(worked?)
}

/// Leadership, on its own thread with its own connections. `None`: nobody has to be asked.
fn elect(
    config: &Config,
    kube: &kube::Config,
    identity: &str,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Elector>> {
    let Some(lease) = &config.lease else {
        // Alerts ask who leads.
        metrics.leader.with_label_values(&[""]).set(1);
        return Ok(None);
    };
    let settings = lease::Settings::new(lease, &kube.default_namespace);
    let transport = Transport::connect(kube, metrics.clone(), &BatchWindow::default())?;
    let lost = |reason: &str| {
        tracing::error!(reason, "leadership lost; exiting");
        std::process::exit(1);
    };
    Ok(Some(Elector::start(
        transport,
        settings,
        identity.to_owned(),
        metrics,
        lost,
    )?))
}

/// Health, metrics, debugging: on a thread of its own.
fn serve(config: &Config, metrics: &Arc<Metrics>, instance: &mut Instance) -> anyhow::Result<()> {
    let watches = instance.watches.clone();
    metrics.before_scrape(move |metrics| {
        for watch in &watches {
            let silence = metrics.watch_silence.with_label_values(&[watch.kind()]);
            silence.set(watch.silence().as_secs_f64());
        }
    });
    let heartbeat = Heartbeat::new(http::LONGEST_SILENCE);
    let beats = heartbeat.clone().run();
    let stop = instance.shutdown.clone();
    instance.parts.start("the heartbeat", async move {
        stop.run_until_cancelled(beats).await;
    });
    let synced = instance.watches.iter().cloned().map(Check::cache);
    let ready = std::iter::once(heartbeat.check()).chain(synced).collect();
    let public = http::public(metrics.clone(), vec![heartbeat.check()], ready);
    let mut sites = vec![(http::bind("--http-address", config.http_address)?, public)];
    if let Some(listener) = config.debug_address.and_then(bind_debug) {
        let (store, queues) = (instance.store.clone(), instance.queues.clone());
        let flights = instance.flights.clone();
        let router = http::debug(
            Box::new(move |_| {
                let held = kinds::sizes(&store.read());
                let mut page = store::observe::debug(&store, &held);
                for served in &SERVED {
                    (served.debug)(&store, &mut page);
                }
                page
            }),
            Box::new(move |_| serde_json::json!(queues.view())),
            Box::new(move |query| flights.page(query)),
        );
        sites.push((listener, router));
    }
    let shutdown = instance.shutdown.clone();
    let server = http::start(sites, Limits::default(), shutdown);
    let server = server.context("the thread for --http-address")?;
    instance
        .parts
        .start("the thread for --http-address", server.ended());
    Ok(())
}

/// Binds the debug pages. The process does without them when another one has the port.
fn bind_debug(address: SocketAddr) -> Option<TcpListener> {
    let bound = http::bind("--debug-address", address);
    let told = |error: &_| tracing::warn!("no debug pages: {error:#}");
    bound.inspect_err(told).ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_second_operator_on_a_machine_does_without_debug_pages() {
        let first = bind_debug((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = first.local_addr().unwrap();
        assert!(bind_debug(port).is_none());
        drop(first);
        assert!(bind_debug(port).is_some());
    }
}
