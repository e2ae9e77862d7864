//! The bytes of responses that the server holds for its clients, in total.
//!
//! A reservation that is dropped subtracts exactly the bytes that it added, and it is
//! dropped together with these bytes. So the budget counts the memory that is held, by
//! any task or protocol.
//!
//! Clients that are sent the same cached body share its memory: a body of more than
//! [`SHARED_FROM`] bytes is counted once, however many connections hold it. Smaller
//! bodies are counted for each connection, which takes no lock.
//!
//! Each thread that serves connections has a share of the budget, with some bytes in
//! advance and a table of the bodies that it sends, so that threads write to no memory that
//! others use. A body of up to [`MAX_COPY`] bytes is counted once for each thread: threads
//! have copies of hot ones, and the others are sent only a few times.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::cache::MAX_COPY;

/// Bodies of more bytes than this are counted once, however many connections hold them.
pub(super) const SHARED_FROM: usize = 4 << 10;

/// The bytes that a share takes from the budget in advance. It returns them when it has
/// twice as many, or when the budget is exhausted.
const ADVANCE: usize = 128 << 10;

/// The number of reservations that hold each body, by its address. A reservation keeps its
/// body, so that no other body can have the same address.
type Holders = HashMap<usize, u32>;

/// The reserved bytes of all connections, and the tasks that wait for their release.
#[derive(Debug, Default)]
pub(super) struct SendBudget {
    /// The reserved bytes, and the advances of all shares.
    used: AtomicUsize,
    shares: Mutex<Vec<Weak<BudgetShare>>>,
    /// The holders of the bodies of which threads have no copies.
    holders: Mutex<Holders>,
    waiters: AtomicU32,
    released: Notify,
}

/// The share of a thread in the budget. The alignment, which the reference count gets as well,
/// keeps it out of the cache lines of other threads; processors load them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct BudgetShare {
    budget: Arc<SendBudget>,
    /// The bytes that are not reserved.
    advance: AtomicUsize,
    /// The holders of the other bodies that the thread sends.
    holders: Mutex<Holders>,
}

/// Bytes that are reserved until this is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    share: Arc<BudgetShare>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Own(usize),
    Shared(Bytes),
}

/// A task that waits for reservations to be dropped.
pub(super) struct Waiter<'a>(&'a SendBudget);

impl SendBudget {
    /// Returns a new share.
    pub(super) fn share(self: &Arc<Self>) -> Arc<BudgetShare> {
        let share = Arc::new(BudgetShare {
            budget: Arc::clone(self),
            advance: AtomicUsize::new(0),
            holders: Mutex::default(),
        });
        let mut shares = self.shares();
        shares.retain(|share| share.strong_count() > 0);
        shares.push(Arc::downgrade(&share));
        share
    }

    /// Returns the number of bytes that are reserved.
    pub(super) fn used(&self) -> usize {
        let shares = self.shares();
        let shares = shares.iter().filter_map(Weak::upgrade);
        let advances = shares.map(|share| share.advance.load(SeqCst)).sum();
        self.used.load(SeqCst).saturating_sub(advances)
    }

    /// Registers a task that waits for reservations to be dropped.
    pub(super) fn waiter(&self) -> Waiter<'_> {
        self.waiters.fetch_add(1, SeqCst);
        Waiter(self)
    }

    fn add(&self, bytes: usize, ceiling: usize) -> bool {
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= ceiling);
        self.used.fetch_update(SeqCst, SeqCst, sum).is_ok()
    }

    fn subtract(&self, bytes: usize) {
        self.used.fetch_sub(bytes, SeqCst);
    }

    /// Takes back the advances of all shares.
    fn collect(&self) {
        for share in self.shares().iter().filter_map(Weak::upgrade) {
            self.subtract(share.advance.swap(0, SeqCst));
        }
    }

    fn notify(&self) {
        if self.waiters.load(SeqCst) > 0 {
            self.released.notify_waiters();
        }
    }

    // Nothing that panics is done while this lock or one of holders is held.
    fn shares(&self) -> MutexGuard<'_, Vec<Weak<BudgetShare>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetShare {
    /// Returns the budget of all connections.
    pub(super) fn budget(&self) -> &Arc<SendBudget> {
        &self.budget
    }

    /// Reserves this many bytes, unless the total would exceed `ceiling`.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize, ceiling: usize) -> Option<Reservation> {
        self.add(bytes, ceiling)
            .then(|| Reservation { share: Arc::clone(self), kind: Kind::Own(bytes) })
    }

    /// Reserves the bytes of a body, unless the total would exceed `ceiling`. A body of
    /// more than [`SHARED_FROM`] bytes adds nothing if another reservation of it exists.
    pub(super) fn reserve_body(
        self: &Arc<Self>,
        body: &Bytes,
        ceiling: usize,
    ) -> Option<Reservation> {
        if body.len() <= SHARED_FROM {
            return self.reserve(body.len(), ceiling);
        }
        let mut holders = self.holders(body);
        match holders.get_mut(&address(body)) {
            Some(count) => *count += 1,
            None if self.add(body.len(), ceiling) => {
                holders.insert(address(body), 1);
            }
            None => return None,
        }
        Some(Reservation { share: Arc::clone(self), kind: Kind::Shared(body.clone()) })
    }

    fn holders(&self, body: &Bytes) -> MutexGuard<'_, Holders> {
        let is_copied = body.len() <= MAX_COPY;
        let holders = if is_copied { &self.holders } else { &self.budget.holders };
        holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, bytes: usize, ceiling: usize) -> bool {
        let budget = &self.budget;
        if bytes == 0 || (budget.used.load(SeqCst) <= ceiling && self.take(bytes)) {
            return true;
        }
        if bytes < ADVANCE && budget.add(bytes + ADVANCE, ceiling) {
            self.advance.fetch_add(ADVANCE, SeqCst);
            return true;
        }
        budget.add(bytes, ceiling) || {
            budget.collect();
            budget.add(bytes, ceiling)
        }
    }

    /// Takes bytes of the advance, if it has that many.
    fn take(&self, bytes: usize) -> bool {
        let rest = |advance: usize| advance.checked_sub(bytes);
        self.advance.fetch_update(SeqCst, SeqCst, rest).is_ok()
    }

    fn release(&self, bytes: usize) {
        let advance = self.advance.fetch_add(bytes, SeqCst).saturating_add(bytes);
        let excess = advance.saturating_sub(ADVANCE);
        if excess > ADVANCE && self.take(excess) {
            self.budget.subtract(excess);
        }
        // Waiting tasks take the advances back themselves.
        self.budget.notify();
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.subtract(*self.advance.get_mut());
    }
}

fn address(body: &Bytes) -> usize {
    body.as_ptr().addr()
}

impl Waiter<'_> {
    /// Completes when a reservation is dropped after this call.
    pub(super) fn released(&self) -> Notified<'_> {
        self.0.released.notified()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, SeqCst);
    }
}

impl Reservation {
    /// Releases the bytes that exceed `to`; none of a shared body.
    pub(super) fn shrink(&mut self, to: usize) {
        if let Kind::Own(bytes) = &mut self.kind {
            let excess = bytes.saturating_sub(to);
            if excess > 0 {
                *bytes -= excess;
                self.share.release(excess);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match &self.kind {
            Kind::Own(bytes) => self.share.release(*bytes),
            Kind::Shared(body) => {
                let mut holders = self.share.holders(body);
                if let Some(count) = holders.get_mut(&address(body)) {
                    *count -= 1;
                    if *count == 0 {
                        holders.remove(&address(body));
                        drop(holders);
                        return self.share.release(body.len());
                    }
                }
                drop(holders);
                // Nothing was released: waiting tasks evict the next connection.
                self.share.budget.notify();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ADVANCE, BudgetShare, SHARED_FROM, SendBudget};
    use crate::cache::MAX_COPY;
    use bytes::Bytes;
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn reservations_never_exceed_the_ceiling_and_release_what_they_took() {
        let budget = Arc::new(SendBudget::default());
        let share = budget.share();
        let first = share.reserve(60, 100).unwrap();
        assert!(share.reserve(41, 100).is_none());
        assert!(share.reserve(usize::MAX, usize::MAX).is_none());
        let second = share.reserve(40, 100).unwrap();
        assert_eq!(budget.used(), 100);
        drop(first);
        assert_eq!(budget.used(), 40);
        drop(second);
        assert_eq!(budget.used(), 0);
        let mut third = share.reserve(30, 100).unwrap();
        third.shrink(50);
        assert_eq!(budget.used(), 30);
        third.shrink(20);
        assert_eq!(budget.used(), 20);
        drop(third);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_large_body_counts_once_and_a_small_one_for_each_holder() {
        let budget = Arc::new(SendBudget::default());
        let share = budget.share();
        let size = SHARED_FROM + 1;
        let body = Bytes::from(vec![0; size]);
        let held: Vec<_> =
            (0..10).map(|_| share.reserve_body(&body.clone(), size).unwrap()).collect();
        assert_eq!(budget.used(), size);
        let other = Bytes::from(vec![0; size]);
        assert!(share.reserve_body(&other, 2 * size - 1).is_none());
        let other = share.reserve_body(&other, 2 * size).unwrap();
        drop(held);
        assert_eq!(budget.used(), size);
        drop(other);
        let small = Bytes::from(vec![0; SHARED_FROM]);
        let held = [(); 3].map(|()| share.reserve_body(&small, usize::MAX).unwrap());
        assert_eq!(budget.used(), 3 * SHARED_FROM);
        drop(held);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_body_that_threads_copy_is_counted_by_each_thread_and_a_larger_one_by_all_together() {
        let budget = Arc::new(SendBudget::default());
        let shares = [(); 2].map(|()| budget.share());
        let reserve = |body: &Bytes| {
            let reserve = |share: &Arc<_>| BudgetShare::reserve_body(share, body, usize::MAX);
            [&shares[0], &shares[0], &shares[1]].map(reserve)
        };
        let held = reserve(&Bytes::from(vec![0; MAX_COPY]));
        assert_eq!(budget.used(), 2 * MAX_COPY);
        // The threads wrote to no table that others use.
        assert!(budget.holders.lock().unwrap().is_empty());
        drop(held);
        let held = reserve(&Bytes::from(vec![0; MAX_COPY + 1]));
        assert_eq!(budget.used(), MAX_COPY + 1);
        drop(held);
        assert_eq!(budget.used(), 0);
        assert!(budget.holders.lock().unwrap().is_empty());
    }

    #[test]
    fn shares_of_threads_are_in_cache_lines_of_their_own() {
        let budget = Arc::new(SendBudget::default());
        let shares = [(); 16].map(|()| budget.share());
        let pairs: HashSet<_> =
            shares.iter().map(|share| Arc::as_ptr(share).addr() / 128).collect();
        assert_eq!(pairs.len(), shares.len());
        // The counts of references are in front of the share.
        assert!(shares.iter().all(|share| Arc::as_ptr(share).addr() % 128 == 0));
    }

    #[test]
    fn advances_of_other_shares_are_taken_back_when_needed() {
        let budget = Arc::new(SendBudget::default());
        let ceiling = 4 * ADVANCE;
        let shares = [(); 3].map(|()| budget.share());
        let held = [0, 1, 2].map(|share: usize| shares[share].reserve(100, ceiling).unwrap());
        assert_eq!(budget.used(), 300);
        let rest = shares[0].reserve(ceiling - 300, ceiling).unwrap();
        assert!(shares[1].reserve(1, ceiling).is_none());
        drop((held, rest));
        // Released bytes stay with a share up to its advance.
        assert_eq!(budget.used(), 0);
        drop(shares);
        assert_eq!(budget.used.load(SeqCst), 0);
    }

    #[test]
    fn concurrent_reservations_stay_within_the_ceiling_and_return_to_zero() {
        let budget = Arc::new(SendBudget::default());
        let bodies =
            [2 * SHARED_FROM, MAX_COPY, MAX_COPY + 1].map(|size| Bytes::from(vec![0; size]));
        let ceiling = 2 * MAX_COPY + 3 * SHARED_FROM;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let budget = &budget;
                let share = budget.share();
                let bodies = &bodies;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        let body = share.reserve_body(&bodies[(thread + number) % 3], ceiling);
                        let own = share.reserve(number % 100, ceiling);
                        assert!(budget.used() <= ceiling);
                        drop((own, body));
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
        assert!(budget.holders.lock().unwrap().is_empty());
    }
}
