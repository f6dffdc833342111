//! A fingerprint of a plan, by which two plans are told apart without keeping either.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::plan::{Act, OnError, Plan};

/// Most plans are short.
const BUFFER: usize = 1024;

impl<A: Act> Plan<A> {
    /// SHA-256, in hex, over all of the plan as lines of JSON.
    pub fn digest(&self) -> String {
        let mut out = BufWriter::with_capacity(BUFFER, Hasher(Sha256::new()));
        // A hasher takes everything, and what plans consist of can always be written.
        let _ = write(self, &mut out).and_then(|()| out.flush().map_err(serde_json::Error::io));
        let mut text = String::with_capacity(64);
        if let Ok(Hasher(hasher)) = out.into_inner() {
            for byte in hasher.finalize() {
                for half in [byte >> 4, byte & 15] {
                    text.extend(char::from_digit(half.into(), 16));
                }
            }
        }
        text
    }
}

struct Hasher(Sha256);

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write<A: Act>(plan: &Plan<A>, out: &mut impl Write) -> serde_json::Result<()> {
    let wake = plan.wake.map(|time| time.to_string());
    line(out, &("plan", wake, plan.again))?;
    for step in &plan.steps {
        let stops = step.on_error == OnError::Stop;
        line(out, &("step", stops, step.slow_start))?;
        for action in &step.actions {
            action.write(out)?;
        }
    }
    for note in &plan.notes {
        line(
            out,
            &(note.warning, note.reason, note.action, &note.message),
        )?;
    }
    Ok(())
}

/// A value as one line of JSON.
pub(crate) fn line(
    out: &mut (impl Write + ?Sized),
    value: &impl Serialize,
) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n").map_err(serde_json::Error::io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broadcast_job::action::{Action, Plan, SliceWrite, Step};
    use crate::record::Record;

    #[test]
    fn every_part_of_a_plan_is_in_its_digest() {
        let write = SliceWrite {
            rv: Some(1),
            kept: [Record::default()].into_iter().collect(),
            changed: [(0, Record::default())].into(),
            added: vec![Record::default()],
            ..SliceWrite::default()
        };
        let plan = Plan {
            steps: vec![Step::needed(vec![Action::WriteSlice(write)])],
            ..Plan::default()
        };
        let changed = |change: &dyn Fn(&mut Plan)| {
            let mut other = plan.clone();
            change(&mut other);
            other.digest()
        };
        let slice = |change: &dyn Fn(&mut SliceWrite)| {
            changed(&|plan| match &mut plan.steps[0].actions[0] {
                Action::WriteSlice(write) => change(write),
                other => panic!("{other:?}"),
            })
        };
        let digests = [
            plan.digest(),
            changed(&|plan| plan.again = true),
            changed(&|plan| plan.wake = jiff::Timestamp::from_second(1).ok()),
            changed(&|plan| plan.steps[0].on_error = OnError::GoOn),
            changed(&|plan| plan.steps.push(Step::needed(vec![Action::DeleteJob]))),
            slice(&|write| write.rv = None),
            slice(&|write| write.sealed = true),
            slice(&|write| write.edit(|all| all[0].exit_code = Some(3))),
            slice(&|write| write.added[0].exit_code = Some(3)),
            slice(&|write| write.added.clear()),
            slice(&|write| write.kept.clear()),
        ];
        let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
        assert!(digests.iter().all(|digest| digest.len() == 64));
        assert_eq!(plan.clone().digest(), plan.digest());
    }
}
