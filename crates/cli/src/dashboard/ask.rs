//! Asks operators for their last decisions.

use std::sync::Arc;

use carillon_dashboard::decisions::Ask;
use carillon_plan::view::decision::Answers;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::client::Api;
use crate::client::decisions::Operators;

/// With the connection of the pages.
pub(super) struct AskOperators {
    pub(super) api: Arc<Api>,
    pub(super) of: Operators,
}

impl Ask for AskOperators {
    fn decisions(&self, uid: String) -> BoxFuture<'_, Result<Answers, String>> {
        async move {
            let decisions = self.api.decisions(&uid, &self.of).await;
            decisions.map_err(|error| format!("{error:#}"))
        }
        .boxed()
    }
}
