//! What `/livez` and `/readyz` ask.

use crate::watch;

/// A named question with the answer "ok" or the reason why not. Must not block.
pub struct Check {
    pub(super) name: String,
    pub(super) ask: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Check {
    /// A check called `name` in `?verbose` output.
    pub fn new(
        name: impl Into<String>,
        ask: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            ask: Box::new(ask),
        }
    }

    /// Whether the cache of a kind is filled and kept up to date; of several namespaces, in one.
    pub fn cache(handle: watch::Handle) -> Self {
        Self::new(format!("cache-{}", handle.kind()), move || {
            if handle.is_clear_somewhere() {
                Ok(())
            } else if handle.is_synced() {
                Err(format!(
                    "nothing heard for {} s",
                    handle.silence().as_secs()
                ))
            } else {
                Err("not listed yet".to_owned())
            }
        })
    }
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}
