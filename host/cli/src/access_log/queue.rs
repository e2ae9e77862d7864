//! The bound of the lines that wait while the file is written slowly. Further lines are lost:
//! no request waits for the access log.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The maximum size of the waiting lines.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// The maximum number of the waiting lines.
pub(super) const MAX_WAITING_LINES: usize = 64 << 10;

/// The size that a short line counts with, which bounds the number of lines.
const MIN_COST: usize = MAX_WAITING_BYTES / MAX_WAITING_LINES;

/// Counts the waiting lines and the lost ones.
#[derive(Default)]
pub(super) struct Queue {
    waiting: AtomicUsize,
    lost: AtomicU64,
}

impl Queue {
    /// Returns whether a line of this length may wait. If not, it counts as lost.
    pub(super) fn reserve(&self, length: usize) -> bool {
        let add = |waiting| {
            let waiting = waiting + cost(length);
            (waiting <= MAX_WAITING_BYTES).then_some(waiting)
        };
        let is_reserved = self.waiting.fetch_update(Relaxed, Relaxed, add).is_ok();
        if !is_reserved {
            self.lost.fetch_add(1, Relaxed);
        }
        is_reserved
    }

    /// Removes a line that no longer waits.
    pub(super) fn release(&self, length: usize) {
        self.waiting.fetch_sub(cost(length), Relaxed);
    }

    /// Returns whether lines were lost since [`Self::take_lost`].
    pub(super) fn has_lost(&self) -> bool {
        self.lost.load(Relaxed) > 0
    }

    /// Returns the number of lines that were lost since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Relaxed)
    }
}

fn cost(length: usize) -> usize {
    length.max(MIN_COST)
}

#[cfg(test)]
mod tests {
    use super::{MAX_WAITING_BYTES, MAX_WAITING_LINES, Queue};

    #[test]
    fn bytes_and_lines_are_bounded() {
        for (length, count) in [(1, MAX_WAITING_LINES), (1 << 14, 1 << 10), (MAX_WAITING_BYTES, 1)]
        {
            let queue = Queue::default();
            assert!((0..count).all(|_| queue.reserve(length)), "{length}");
            assert!(!queue.reserve(1), "{length}");
            assert!(queue.has_lost());
            assert_eq!(queue.take_lost(), 1);
            assert!(!queue.has_lost());
            queue.release(length);
            assert!(queue.reserve(length) && !queue.reserve(length), "{length}");
        }
    }
}
