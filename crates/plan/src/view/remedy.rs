//! What the API server says of an object that does not exist, with the command that makes it.

/// Begins what admission says of a pod whose ServiceAccount it cannot find. Source: upstream plugin/pkg/admission.
const LOOKING: &str = "error looking up service account ";

/// A ServiceAccount without which no pod is accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MissingAccount {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl MissingAccount {
    /// The one that a message is about, if it is about one.
    pub fn of(message: &str) -> Option<Self> {
        let (_, rest) = message.split_once(LOOKING)?;
        let (account, why) = rest.split_once(": ")?;
        let (namespace, name) = account.split_once('/')?;
        let is_name = |text: &str| {
            let allowed = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
            };
            !text.is_empty() && !text.starts_with('-') && text.bytes().all(allowed)
        };
        // It becomes a command: nothing else may be in it.
        let found = is_name(namespace) && is_name(name) && why.contains("not found");
        found.then(|| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The command that creates it.
    pub fn command(&self) -> String {
        let Self { namespace, name } = self;
        format!("kubectl -n {namespace} create serviceaccount {name}")
    }
}

/// The message, or in its place what is missing and the command that makes it.
pub fn told(message: &str) -> String {
    match MissingAccount::of(message) {
        Some(account) => format!(
            "ServiceAccount {} does not exist: {}",
            account.name,
            account.command()
        ),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_account_is_told_with_the_command_that_makes_it() {
        let message = "pods \"fix-1\" is forbidden: error looking up service account ops/nobody: serviceaccount \
                       \"nobody\" not found";
        assert_eq!(
            told(message),
            "ServiceAccount nobody does not exist: kubectl -n ops create serviceaccount nobody"
        );
    }

    #[test]
    fn any_other_message_stays_as_it_is() {
        for message in [
            "",
            "pods \"fix-1\" is forbidden: violates PodSecurity \"restricted:latest\"",
            "error looking up service account ops/nobody: etcd timed out",
            "error looking up service account ops/a; rm -rf x: not found",
            "error looking up service account ops/--all: not found",
            "error looking up service account nobody: not found",
        ] {
            assert_eq!(told(message), message);
        }
    }
}
