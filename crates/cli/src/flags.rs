//! Flags that several verbs have, named as kubectl names them.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::candidates;
use crate::client::Target;
use crate::names::job_name;
use crate::render::{Color, Format};

/// Flags of every verb.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Namespace; that of the kubeconfig's context when absent
    #[arg(short, long, global = true, add = ArgValueCandidates::new(candidates::namespaces))]
    pub(crate) namespace: Option<String>,
    /// Kubeconfig file; $KUBECONFIG or ~/.kube/config when absent
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Cluster of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Ask as this user, if the cluster lets you
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// And as a member of this group. Can be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub(crate) as_groups: Vec<String>,
    /// Colours: auto means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
}

impl Global {
    /// These flags as they are written again, but for colours.
    pub(crate) fn repeated(&self) -> String {
        self.written(
            &[
                ("--context", &self.context),
                ("--cluster", &self.cluster),
                ("--user", &self.user),
                ("--as", &self.as_user),
            ],
            "--as-group",
        )
    }

    /// The same without the namespace: which cluster is meant, and as whom.
    pub(crate) fn repeated_without_namespace(&self) -> String {
        let flags = Self {
            namespace: None,
            ..self.clone()
        };
        flags.repeated()
    }

    /// The same for helm, which can choose no cluster and no user of a kubeconfig.
    pub(crate) fn repeated_for_helm(&self) -> String {
        self.written(
            &[
                ("--kube-context", &self.context),
                ("--kube-as-user", &self.as_user),
            ],
            "--kube-as-group",
        )
    }

    /// The flags that all programs call the same, and then those with names of their own.
    fn written(&self, own: &[(&str, &Option<String>)], group: &str) -> String {
        let file = self.kubeconfig.as_ref();
        let kubeconfig = file.map(|file| file.display().to_string());
        let shared = [("-n", &self.namespace), ("--kubeconfig", &kubeconfig)];
        let flags = shared.iter().chain(own);
        let flags = flags.filter_map(|(flag, value)| Some((*flag, value.as_ref()?)));
        let groups = self.as_groups.iter().map(|name| (group, name));
        let flags = flags
            .chain(groups)
            .map(|(flag, value)| format!("{flag} {}", quoted(value)));
        flags.collect::<Vec<_>>().join(" ")
    }

    /// The cluster that is meant.
    pub(crate) fn target(&self) -> Target {
        Target {
            namespace: self.namespace.clone(),
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            as_user: self.as_user.clone(),
            as_groups: self.as_groups.clone(),
        }
    }
}

/// As a shell reads it as one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// How to print an answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// How to print; a table when absent
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// No line of headers above a table
    #[arg(long)]
    pub(crate) no_headers: bool,
}

/// For verbs that write.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct DryRun {
    /// Change nothing; say whether the API server would accept it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl DryRun {
    /// What stands behind what would be done.
    pub(crate) fn mark(self) -> &'static str {
        if self.dry_run { " (dry run)" } else { "" }
    }
}

/// A BroadcastJob by name.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobName {
    /// Name of the BroadcastJob, also as cbj/NAME
    #[arg(value_parser = job_name, add = ArgValueCandidates::new(candidates::jobs))]
    pub(crate) job: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_repeated_as_a_shell_reads_them() {
        let flags = Global {
            namespace: Some("team-a".to_owned()),
            kubeconfig: Some("/k/it's mine".into()),
            context: Some("prod".to_owned()),
            as_user: Some("jane".to_owned()),
            as_groups: vec!["a".to_owned(), "b c".to_owned()],
            ..Global::default()
        };
        assert_eq!(
            flags.repeated(),
            r"-n team-a --kubeconfig '/k/it'\''s mine' --context prod --as jane --as-group a --as-group 'b c'"
        );
        assert_eq!(Global::default().repeated(), "");
    }
}
