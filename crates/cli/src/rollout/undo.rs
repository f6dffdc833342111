//! `rollout undo`.

use anyhow::{Error, Result};
use carillon_plan::view::daemon_set::change::put_template;
use carillon_plan::view::daemon_set::history::{self, Undo as Undone};
use carillon_plan::view::daemon_set::resource;

use super::set::{SetName, with_revisions};
use crate::apply::{TEMPLATE, differences};
use crate::client::Api;
use crate::exit::DONE;
use crate::flags::DryRun;
use crate::render::Screen;

/// Put the template of an earlier revision back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only the template is put back, and only if nobody changes the spec at the same moment. Whoever keeps the manifest
elsewhere, as in git, has to change it there, too.

Examples:
  # To the one before the current one; what would be changed
  kubectl carillon rollout undo agent --dry-run

  kubectl carillon rollout undo cds/agent --to-revision 3")]
pub(super) struct Undo {
    #[command(flatten)]
    set: SetName,
    /// Number of the revision, as in `rollout history`; the one before the current template when absent or 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    to_revision: Option<i64>,
    #[command(flatten)]
    dry: DryRun,
}

pub(super) async fn run(api: &Api, args: &Undo, screen: &mut Screen) -> Result<u8> {
    let known = with_revisions(api, &args.set).await?;
    let set = &known.stored.set;
    let (resource, name) = (resource(set), &set.meta.owner.name);
    let to = args.to_revision.filter(|number| *number != 0);
    let entry = match history::undo(&known, to).map_err(Error::msg)? {
        Undone::To(entry) => entry,
        Undone::Skipped(number) => {
            screen.line(&format!(
                "{resource}/{name} skipped: its template is that of revision {number} already"
            ))?;
            return Ok(DONE);
        }
    };
    let patch = put_template(set, &entry.template);
    api.patch_set(set, args.dry.dry_run, &patch).await?;
    let (number, dry) = (entry.revision, args.dry.mark());
    screen.line(&format!(
        "{resource}/{name} rolled back to revision {number}{dry}"
    ))?;
    for change in differences(TEMPLATE, &set.template.value(), &entry.template) {
        screen.line(&format!("  {}", change.line()))?;
    }
    Ok(DONE)
}
