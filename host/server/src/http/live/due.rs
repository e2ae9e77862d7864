//! The entries to evaluate.
//!
//! Each mount has evaluations of its own, so that a slow module does not delay those of others.

use std::collections::{BTreeSet, HashMap};

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
#[derive(Default)]
struct OfMount {
    due: BTreeSet<(Instant, EntryId)>,
    /// The number of evaluations in progress.
    running: usize,
    limit: usize,
}

impl DueEntries {
    /// Adds an entry, which may be evaluated from this time.
    pub(super) fn insert(&mut self, mount: &Mount, time: Instant, id: EntryId) {
        let of_mount = self.0.entry(mount.path().clone()).or_default();
        // Clients that ask now keep half of the runs.
        let half = mount.engine().limits().concurrency as usize / 2;
        of_mount.limit = half.clamp(1, MAX_EVALUATIONS);
        of_mount.due.insert((time, id));
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, mount: &MountPath, time: Instant, id: EntryId) {
        self.update(mount, |of_mount| {
            of_mount.due.remove(&(time, id));
        });
    }

    /// Returns the first entry of the mounts that may begin an evaluation, with its time.
    pub(super) fn first(&self) -> Option<(Instant, EntryId)> {
        let ready = self.0.values().filter(|of_mount| of_mount.running < of_mount.limit);
        ready.filter_map(|of_mount| of_mount.due.first().copied()).min()
    }

    /// Begins the evaluation of an entry, which is not due any more.
    pub(super) fn begin(&mut self, mount: &MountPath, time: Instant, id: EntryId) {
        self.update(mount, |of_mount| {
            of_mount.due.remove(&(time, id));
            of_mount.running += 1;
        });
    }

    /// Ends an evaluation that was begun for this mount.
    pub(super) fn end(&mut self, mount: &MountPath) {
        self.update(mount, |of_mount| of_mount.running -= 1);
    }

    fn update(&mut self, mount: &MountPath, change: impl FnOnce(&mut OfMount)) {
        let Some(of_mount) = self.0.get_mut(mount) else { return };
        change(of_mount);
        if of_mount.due.is_empty() && of_mount.running == 0 {
            self.0.remove(mount);
        }
    }
}
