//! `spec.retryOf`: which job a retry is one of.

use carillon_api::broadcast_job::RetryOf;
use serde_json::Value;

use crate::uid::Uid;

/// The first job of its family, as a retry names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct First {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: Uid,
    /// How many of the retries were known to whoever made this one.
    pub known_retries: usize,
}

impl First {
    /// Reads `spec.retryOf`, also when it breaks a rule.
    pub(super) fn read(spec: &Value, problems: &mut Vec<String>) -> Option<Self> {
        let stored = match spec.get("retryOf") {
            None | Some(Value::Null) => return None,
            Some(stored) => stored,
        };
        let read = serde_json::from_value::<RetryOf>(stored.clone()).ok();
        let first = read.and_then(|retry_of| {
            Some(Self {
                uid: retry_of.uid.parse().ok()?,
                known_retries: usize::try_from(retry_of.known_retries).ok()?,
                name: retry_of.name,
            })
        });
        if first.is_none() {
            problems.push(format!(
                "spec.retryOf: found {stored}; create the job again with name and uid of the BroadcastJob whose nodes are to be tried again"
            ));
        }
        // Rather the retry of none than a job of its own.
        Some(first.unwrap_or_else(|| Self {
            name: String::new(),
            uid: Uid::default(),
            known_retries: 0,
        }))
    }
}
