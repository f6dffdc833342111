//! What the creations of a plan rely on: the job, and the slice that holds their reservation. Each is asked for again
//! when that was long ago.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use carillon_plan::broadcast_job::BroadcastJob;
use carillon_plan::name;

use crate::apply::precondition::{changed, unchanged};
use crate::apply::{CONFIRMED_FOR, confirmed_until, found, is_found};
use crate::fence::NotSent;
use crate::gate::Kind;
use crate::lease::BootTime;
use crate::request;
use crate::request::Call;
use crate::slim::SlimMeta;
use crate::writes::{SendError, Turn, Writes};

/// What a plan has written or asked about, and when.
#[derive(Debug)]
pub struct Confirmed<'a> {
    job: &'a BroadcastJob,
    writes: &'a Writes,
    /// When the job was as it was read, which may go while its slices stay.
    job_at: Mutex<Option<BootTime>>,
    /// Slices, by index.
    slices: Mutex<BTreeMap<u32, Slice>>,
    /// One of them is another one by now.
    is_over: AtomicBool,
}

/// Held by who asks for it, so that the others wait for the answer.
type Slice = Arc<tokio::sync::Mutex<Option<Version>>>;

/// A version of a slice, and when it was the present one.
#[derive(Clone, Copy, Debug)]
struct Version {
    rv: u64,
    at: BootTime,
}

impl<'a> Confirmed<'a> {
    /// Nothing is known yet.
    pub fn nothing(job: &'a BroadcastJob, writes: &'a Writes) -> Self {
        Self {
            job,
            writes,
            job_at: Mutex::default(),
            slices: Mutex::default(),
            is_over: AtomicBool::default(),
        }
    }

    /// Asks whether the job is as it was read.
    ///
    /// # Errors
    /// When it is not, or nobody can say.
    pub async fn ask_for_job(&self) -> Result<(), SendError> {
        self.is_as_read(found(self.writes, self.get_job()).await?)?;
        self.job_is_there(self.writes.clock().boot());
        Ok(())
    }

    /// Asks whether a slice is in this version.
    ///
    /// # Errors
    /// When it is not, or nobody can say.
    pub async fn ask_for_slice(&self, index: u32, rv: u64) -> Result<(), SendError> {
        unchanged(found(self.writes, self.get_slice(index)).await?, rv)?;
        self.slice_is(index, rv).await;
        Ok(())
    }

    /// A slice is in this version now.
    pub async fn slice_is(&self, index: u32, rv: u64) {
        let at = self.writes.clock().boot();
        *self.slice(index).lock().await = Some(Version { rv, at });
    }

    /// Until when a creation may be sent whose turn it is, and whose reservation is in slice `index`. What was confirmed
    /// long ago is asked for again, all of it at once: one after the other, on a slow API server the first answer
    /// would be old when the second comes.
    ///
    /// # Errors
    /// When something has changed, nobody can say, or the plan is too old.
    pub async fn until(
        &self,
        turn: &Turn<'_>,
        index: u32,
        not_after: BootTime,
    ) -> Result<BootTime, SendError> {
        let slice = self.slice(index);
        let mut slice = slice.lock().await;
        // What the one before has learnt the others need not ask.
        if self.is_over.load(Ordering::Acquire) {
            return Err(changed());
        }
        if self.writes.clock().boot() >= not_after {
            return Err(NotSent::Expired.into());
        }
        let job = *self.job_at.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = job.into_iter().chain(slice.map(|slice| slice.at)).min();
        if let Some(until) = confirmed_until(oldest, self.writes) {
            return Ok(until);
        }
        let ask = async |asks: bool, call| {
            if !asks {
                return None;
            }
            let found = is_found(turn.read(call).await);
            Some((found, self.writes.clock().boot()))
        };
        let (asked_job, asked_slice) = futures::join!(
            ask(job.is_some(), self.get_job()),
            ask(slice.is_some(), self.get_slice(index))
        );
        let mut since = self.writes.clock().boot();
        let over = |error| {
            self.is_over.store(true, Ordering::Release);
            error
        };
        if let Some((found, at)) = asked_job {
            self.is_as_read(found?).map_err(over)?;
            self.job_is_there(at);
            since = since.min(at);
        }
        if let Some(((found, at), version)) = asked_slice.zip(slice.as_mut()) {
            unchanged(found?, version.rv).map_err(over)?;
            version.at = at;
            since = since.min(at);
        }
        Ok(since.after(CONFIRMED_FOR))
    }

    fn get_job(&self) -> Call {
        let owner = &self.job.meta.owner;
        request::get(Kind::BroadcastJob, &owner.namespace, &owner.name)
    }

    fn get_slice(&self, index: u32) -> Call {
        let owner = &self.job.meta.owner;
        let slice = name::slice(&owner.name, owner.uid, index);
        request::get(Kind::Slice, &owner.namespace, &slice)
    }

    fn is_as_read(&self, found: Option<SlimMeta>) -> Result<(), SendError> {
        let found = found.filter(|job| job.uid() == Some(self.job.meta.owner.uid));
        unchanged(found, self.job.meta.rv)
    }

    fn job_is_there(&self, at: BootTime) {
        let job = self.job_at.lock();
        let mut job = job.unwrap_or_else(PoisonError::into_inner);
        *job = (*job).max(Some(at));
    }

    fn slice(&self, index: u32) -> Slice {
        let slices = self.slices.lock();
        let mut slices = slices.unwrap_or_else(PoisonError::into_inner);
        slices.entry(index).or_default().clone()
    }
}
