//! How a Job is going to end.

/// How a Job is going to end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct EndState {
    /// Its condition says `SuccessCriteriaMet` and then `Complete`; otherwise `FailureTarget` and
    /// then `Failed`.
    pub(super) success: bool,
    /// Reason of both conditions.
    pub(super) reason: String,
    /// Message of both conditions.
    pub(super) message: String,
}

impl EndState {
    pub(super) fn failure(reason: &str, message: &str) -> Self {
        Self {
            success: false,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    pub(super) fn success(reason: &str, message: &str) -> Self {
        Self {
            success: true,
            ..Self::failure(reason, message)
        }
    }

    /// All completions are there.
    pub(super) fn complete() -> Self {
        let message = "Reached expected number of succeeded pods";
        Self::success("CompletionsReached", message)
    }

    /// Type of the condition that says what is going to happen.
    pub(super) fn interim(&self) -> &'static str {
        if self.success {
            "SuccessCriteriaMet"
        } else {
            "FailureTarget"
        }
    }

    /// Type of the condition that says that it has happened.
    pub(super) fn terminal(&self) -> &'static str {
        if self.success { "Complete" } else { "Failed" }
    }
}
