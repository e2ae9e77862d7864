//! The entries to evaluate, and the evaluations of each mount at once.
//!
//! Each mount has evaluations of its own, so that a slow module does not delay those of others.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::registry::{Mount, MountPath};

/// The number of an entry.
pub(super) type EntryId = u64;

/// The maximum number of concurrent evaluations of a mount.
const MAX_EVALUATIONS: usize = 4;

/// The entries to evaluate, by mount and by the time from which they may be.
#[derive(Default)]
pub(super) struct DueEntries(HashMap<MountPath, OfMount>);

/// The entries of a mount.
struct OfMount {
    due: BTreeSet<(Instant, EntryId)>,
    /// The permits of evaluations.
    permits: Arc<Semaphore>,
    /// The turns of clients that look for a response of their own, which are fewer: they queue for
    /// permits, and entries do not.
    turns: Arc<Semaphore>,
}

impl DueEntries {
    /// Adds an entry, which may be evaluated from this time.
    pub(super) fn insert(&mut self, mount: &Mount, time: Instant, id: EntryId) {
        self.of_mount(mount).due.insert((time, id));
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, mount: &MountPath, time: Instant, id: EntryId) {
        if let Some(of_mount) = self.0.get_mut(mount) {
            of_mount.due.remove(&(time, id));
        }
    }

    /// Returns the first entry of the mounts that may begin an evaluation, with its time.
    pub(super) fn first(&self) -> Option<(Instant, EntryId)> {
        let ready = self.0.values().filter(|of_mount| of_mount.permits.available_permits() > 0);
        ready.filter_map(|of_mount| of_mount.due.first().copied()).min()
    }

    /// Begins the evaluation of an entry, which is not due any more. Returns `None` if none may
    /// begin.
    pub(super) fn begin(
        &mut self,
        mount: &MountPath,
        time: Instant,
        id: EntryId,
    ) -> Option<OwnedSemaphorePermit> {
        let of_mount = self.0.get_mut(mount)?;
        let permit = Arc::clone(&of_mount.permits).try_acquire_owned().ok()?;
        of_mount.due.remove(&(time, id));
        Some(permit)
    }

    /// Returns the permits of a mount, also for the runs of clients that look for a response of
    /// their own.
    pub(super) fn permits(&mut self, mount: &Mount) -> Arc<Semaphore> {
        Arc::clone(&self.of_mount(mount).permits)
    }

    /// Returns the turns of clients that look for a response of their own.
    pub(super) fn turns(&mut self, mount: &Mount) -> Arc<Semaphore> {
        Arc::clone(&self.of_mount(mount).turns)
    }

    /// Forgets mounts without entries and evaluations.
    pub(super) fn prune(&mut self) {
        let is_used = |of_mount: &OfMount| {
            let is_free = |permits| Arc::strong_count(permits) == 1;
            !of_mount.due.is_empty() || !is_free(&of_mount.permits) || !is_free(&of_mount.turns)
        };
        self.0.retain(|_, of_mount| is_used(of_mount));
    }

    fn of_mount(&mut self, mount: &Mount) -> &mut OfMount {
        self.0.entry(mount.path().clone()).or_insert_with(|| {
            // Clients that ask now keep half of the runs, if there are several.
            let half = mount.engine().limits().concurrency as usize / 2;
            let count = half.clamp(1, MAX_EVALUATIONS);
            let permits = Arc::new(Semaphore::new(count));
            let turns = Arc::new(Semaphore::new((count / 2).max(1)));
            OfMount { due: BTreeSet::new(), permits, turns }
        })
    }
}
