//! `dashboard`: the cluster as pages for a browser, served on loopback.

mod act;
mod ask;

use std::sync::Arc;

use anyhow::{Context, Result};
use carillon_dashboard::actions::Act;
use carillon_dashboard::cluster::Cluster;
use carillon_dashboard::server::Server;

use self::act::Commands;
use self::ask::AskOperators;
use crate::client::Api;
use crate::client::decisions::Operators;
use crate::exit::DONE;
use crate::flags::Global;
use crate::render::Screen;

/// Serve pages of BroadcastJobs, CronJobs, Jobs and DaemonSets to a browser on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The pages are read with your kubeconfig and change as the cluster does. They are served on 127.0.0.1 only, under an
address that nobody can guess: who has it sees what you may see. Nothing is installed in the cluster. Without
--namespace they show all namespaces, for which you need to be allowed to list objects everywhere.

Examples:
  kubectl carillon dashboard
  kubectl carillon dashboard -n payments --port 8642

  # With buttons that pause, resume, retry, undo, suspend and trigger, as far as you may do that
  kubectl carillon dashboard --actions")]
pub(crate) struct Dashboard {
    /// Port on 127.0.0.1; a free one when absent
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Let the pages change objects, as far as the API server allows it to you
    #[arg(long)]
    actions: bool,
    #[command(flatten)]
    operators: Operators,
}

pub(crate) fn run(global: &Global, args: &Dashboard, screen: &mut Screen) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(global, args, screen))
}

async fn serve(global: &Global, args: &Dashboard, screen: &mut Screen) -> Result<u8> {
    let api = Arc::new(Api::connect(&global.target()).await?);
    let cluster = Cluster::new(
        api.watching(),
        global.namespace.clone(),
        global.repeated_without_namespace(),
    );
    let bound = Server::bind(args.port).await;
    let server = bound.with_context(|| format!("listening on 127.0.0.1:{}", args.port))?;
    let act = args
        .actions
        .then(|| -> Box<dyn Act> { Box::new(Commands::new(api.clone())) });
    let ask = Box::new(AskOperators {
        api: api.clone(),
        of: args.operators.clone(),
    });
    screen.line(&server.url())?;
    let may = if args.actions {
        "Its buttons change objects."
    } else {
        "It changes nothing."
    };
    screen.aside(&format!(
        "Open this address in a browser. {may} Ctrl-C ends it."
    ));
    tokio::select! {
        ended = server.serve(cluster, act, ask) => ended?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(DONE)
}
