//! List and watch of one kind, into a [`Sink`].
//!
//! kube's own watcher keeps to itself what the gate needs: the resourceVersion of lists and
//! bookmarks. It also stops at the first object it cannot decode, and retries for ever where only
//! a new list helps. The loop here:
//!
//! - lists in pages by quorum read (no `resourceVersion`, never `0`): a list is never older than
//!   what was seen before, whichever API server answers;
//! - watches from the list's resourceVersion with bookmarks; a watch that ends goes on where it was;
//! - lists again after 410 (as event or as HTTP status), after two minutes of nothing but errors, and
//!   when asked to;
//! - asks how far the server has come when nothing was heard for long, and before it lists again: one that was restored
//!   from a backup is silent until it has made as many changes as it has lost. Lists again if the watch does not come
//!   that far, either;
//! - ends when the server's resourceVersions went back: what is remembered is of another history;
//! - skips an object that cannot be decoded, names it in the log, and tells the sink;
//! - compares what was delivered with a list of metadata once in a while, see `watch/audit.rs`.
//!
//! Each object is parsed once, from the bytes received, straight into the slim type. Lists are JSON;
//! a watch of pods is protobuf where the server speaks it, as API servers do.

mod address;
mod answer;
mod audit;
mod counters;
mod frames;
#[cfg(test)]
pub(crate) mod fuzz;
mod handle;
mod items;
mod list;
mod list_and_watch;
mod pages;
mod sink;
mod source;
mod version;
mod watched;

use std::marker::PhantomData;

use self::address::Address;
use self::audit::Audit;
use self::counters::Counters;
pub use self::handle::{Handle, SILENT_FOR_GOOD};
pub use self::list_and_watch::{AnotherHistory, Loop};
use self::pages::PageSize;
pub use self::sink::{Held, Listed, Sink};
pub use self::source::Source;
pub use self::watched::{ObjectId, Watched};
use crate::{metrics::Metrics, transport::Transport};

/// One loop for the whole cluster, or one per namespace when `namespaces` is not empty, each with
/// a sink of its own. Run each of them in a task of its own.
pub fn prepare<K: Watched, S: Sink<K>>(
    transport: &Transport,
    source: &Source,
    namespaces: &[String],
    mut sink: impl FnMut(Option<&str>) -> S,
    metrics: &Metrics,
) -> (Handle, Vec<Loop<K, S>>) {
    let scopes: Vec<Option<&str>> = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces.iter().map(|n| Some(n.as_str())).collect()
    };
    let handle = Handle::of_loops(source, &scopes);
    let counters = Counters::new(source.kind, metrics);
    let loops = scopes
        .into_iter()
        .enumerate()
        .map(|(number, namespace)| {
            let address = Address::new(source, namespace);
            Loop {
                transport: transport.clone(),
                page_size: PageSize::default(),
                audit: Audit::new(source.audit_period, transport, &address, &counters),
                address,
                sink: sink(namespace),
                counters: counters.clone(),
                asked: handle.asked(),
                handle: handle.clone(),
                number,
                object: PhantomData,
            }
        })
        .collect();
    (handle, loops)
}
