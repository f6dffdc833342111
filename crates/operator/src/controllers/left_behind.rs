//! An object that is in no cache but still holds something: when it is really gone, what it held is released.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::interlock;
use carillon_plan::left_behind::{Action, Held, Plan, Snapshot, plan};
use serde_json::json;

use super::core::{Considered, Core, Next};
use crate::apply::{CHANGED, Done, Earlier, Effect, Perform, conflict};
use crate::gate::Kind;
use crate::writes::SendError;

impl Core {
    /// Asks for the object `key` of this kind (`None`: there is nothing to ask for), and releases what it held.
    pub(crate) async fn release(
        &self,
        key: &Arc<ObjectKey>,
        kind: Option<Kind>,
        held: &[Held],
        release: impl AsyncFn(&Held) -> Result<Effect, SendError>,
    ) -> Next {
        let asks = kind.is_some();
        let snapshot = Snapshot { held, asks };
        let plan = plan(&snapshot);
        if plan.steps.is_empty() {
            return Next::Forget;
        }
        let verdict = interlock::left_behind::verify(&snapshot, &plan);
        let is_refused = verdict.is_err();
        let considered = Considered {
            generation: 0,
            rv: 0,
            plan,
            verdict,
            seen: self.store.read().seen(&key.namespace),
            inputs: json!({"held": held.len(), "asks": asks}),
        };
        let now = self.writes.clock().now();
        let (plan, sequence) = self.decide(key, considered, now, |_| Plan::default());
        let performer = Performer {
            core: self,
            key,
            kind,
            release,
        };
        let applied = self.carry_out(key, &performer, plan, sequence).await;
        // What was released says so itself when it changes.
        let is_done = applied.failed.is_none() && applied.in_vain == 0 && !applied.expired;
        if is_done && !is_refused {
            Next::Forget
        } else {
            Next::Failed(None)
        }
    }
}

struct Performer<'a, R> {
    core: &'a Core,
    key: &'a ObjectKey,
    kind: Option<Kind>,
    release: R,
}

impl<R: AsyncFn(&Held) -> Result<Effect, SendError>> Perform for Performer<'_, R> {
    type Action = Action;
    type Answer = ();

    async fn perform(&self, action: &Action, _: Earlier) -> Result<Done<()>, SendError> {
        match (action, self.kind) {
            // Its cache is behind, and its event comes; or this version cannot read it.
            (Action::ConfirmGone, Some(kind)) if self.core.exists(kind, self.key).await? => {
                Err(conflict("it is there", CHANGED))
            }
            (Action::ConfirmGone, _) => Ok(Effect::Nothing.done()),
            (Action::Release(held), _) => match (self.release)(held).await? {
                // Nothing is told of it any more.
                Effect::Gone | Effect::InVain if !held.watched => Ok(Effect::Nothing.done()),
                effect => Ok(effect.done()),
            },
        }
    }

    fn failed(&self, _: &Action, _: &SendError) -> Option<()> {
        None
    }

    fn went_through(&self) -> Option<()> {
        None
    }
}
