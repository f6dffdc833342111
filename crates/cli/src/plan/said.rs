//! What is said of each object of the manifests, whatever its kind.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use crate::apply::{Change, Effect};
use crate::client::{Api, PODS};
use crate::problem;
use crate::render::{Screen, Tone};

/// What was said of an object of the manifests.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    /// What kubectl apply would do.
    pub(super) apply: Effect,
    /// What it would change of an object that is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<Change>,
    /// What could not be asked, and what else is worth knowing.
    pub(super) notes: Vec<String>,
}

/// Whether the API server would accept a pod: what is wrong with its template, or why that is not known.
pub(super) async fn ask_about_pod(
    api: &Api,
    body: &Value,
) -> Result<(Vec<String>, Option<String>)> {
    match api.create(PODS, true, body).await {
        Ok(_) => Ok((Vec::new(), None)),
        // The operator creates the pods; whoever plans need not be allowed to.
        Err(kube::Error::Api(status))
            if status.code == 403 && status.message.contains("cannot create resource") =>
        {
            let note = "the template was not checked: you may not create pods in this namespace";
            Ok((Vec::new(), Some(note.to_owned())))
        }
        Err(kube::Error::Api(status)) => {
            Ok((problem::refused(&status, body, "spec.template."), None))
        }
        Err(error) => Err(api.explain(error, "asking about a pod").await),
    }
}

/// What is wrong with a manifest, and what it would change of an object that is there.
pub(super) fn print_about(
    problems: &[String],
    changes: &[Change],
    screen: &mut Screen,
) -> Result<()> {
    for problem in problems {
        screen.blank()?;
        screen.painted(&[(Tone::Bad, "error:"), (Tone::Plain, &format!(" {problem}"))])?;
    }
    for change in changes {
        screen.line(&format!("  {}", change.line()))?;
    }
    Ok(())
}

pub(super) fn print_notes(notes: &[String], nodes_known: bool, screen: &mut Screen) -> Result<()> {
    if !nodes_known {
        screen.blank()?;
        screen.line(&format!(
            "note: you may not list nodes: {}",
            problem::VIEW_NODES
        ))?;
    }
    for note in notes {
        screen.blank()?;
        screen.line(&format!("note: {note}"))?;
    }
    Ok(())
}
