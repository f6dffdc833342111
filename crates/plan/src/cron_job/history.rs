//! Children that have ended and are no longer kept. One that is retried stays until its retries have ended,
//! beyond the limit.

use super::account::Account;
use super::action::{Action, Why};
use super::child::{Child, ChildKind, Children};
use super::spec::CronJob;

/// Deletions of the oldest beyond the history limits: by start, those that never started last, then by
/// name. What is still active or not yet recorded stays.
pub(super) fn beyond_limits(account: &Account<'_>, children: &Children) -> Vec<Action> {
    let cron: &CronJob = account.cron;
    let active = account.active_uids();
    let mut deletions = Vec::new();
    for (succeeded, keep) in [(true, cron.keep_complete), (false, cron.keep_failed)] {
        let Some(keep) = keep else { continue };
        let mut ended: Vec<_> = children
            .iter()
            .filter(|(_, child)| {
                child
                    .ended
                    .is_some_and(|ended| ended.succeeded() == succeeded)
            })
            .filter(|(_, child)| !child.held && !active.contains(&child.uid))
            .collect();
        ended.sort_by_key(|((_, name), child)| (child.started.is_none(), child.started, name));
        let excess = ended.len().saturating_sub(keep);
        let too_old = ended.into_iter().take(excess);
        let standing = too_old.filter(|(_, child)| !child.deleting && !child.retried);
        deletions
            .extend(standing.map(|((kind, name), child)| delete(*kind, name, child, Why::History)));
    }
    deletions
}

/// Deletes the child that was judged and no other.
pub(super) fn delete(kind: ChildKind, name: &str, child: &Child, why: Why) -> Action {
    Action::DeleteChild {
        kind,
        name: name.to_owned(),
        uid: child.uid,
        rv: child.rv,
        why,
    }
}
