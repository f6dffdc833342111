//! A full list, item by item into the sink.

use super::counters::Counters;
use super::frames::identify;
use super::list_and_watch::{JSON, Loop};
use super::pages::Pages;
use super::sink::Sink;
use super::watched::Watched;

impl<K: Watched, S: Sink<K>> Loop<K, S> {
    /// Reads all pages; the resourceVersion of the list, which is complete then.
    pub(super) async fn list(&mut self) -> Result<u64, String> {
        self.sink.relist_begin();
        let mut pages = Pages::new(&self.transport, &self.address, JSON, self.page_size);
        let rv = loop {
            let (sink, counters) = (&mut self.sink, &self.counters);
            let each = |item: &[u8]| deliver::<K>(item, sink, counters);
            match pages.advance(each).await {
                Ok(None) => self.handle.heard(self.number),
                Ok(Some(rv)) => break Ok(rv),
                Err(error) => break Err(error),
            }
        };
        self.page_size = pages.size();
        rv
    }
}

/// Gives an object of a list to the sink.
fn deliver<K: Watched>(
    item: &[u8],
    sink: &mut impl Sink<K>,
    counters: &Counters,
) -> Result<(), String> {
    counters.listed.inc();
    match serde_json::from_slice(item) {
        Ok(object) => sink.relist_item(object),
        Err(error) => {
            // What is no JSON may have been cut out wrongly: of such a list nothing is believed.
            let item = serde_json::from_slice(item).map_err(|e| e.to_string())?;
            let id = identify(item).0;
            counters.skipped(&id, &error);
            sink.undecodable(&id, false);
        }
    }
    Ok(())
}
