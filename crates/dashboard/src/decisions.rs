//! Why an operator did something: asked of the operator itself.

use carillon_plan::view::decision::Answers;
use futures::future::BoxFuture;

/// Who asks operators for their last decisions.
pub trait Ask: Send + Sync {
    /// The last decisions about the object with this uid, within half a minute. An error says in words why none can be
    /// had.
    fn decisions(&self, uid: String) -> BoxFuture<'_, Result<Answers, String>>;
}
