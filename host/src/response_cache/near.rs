//! What each thread keeps of the cache for itself.
//!
//! Threads that answer the same question share its answer, and with it counts
//! of who holds what: memory that each of them takes from the others with every
//! hit. So each thread has copies of small answers, which it touches alone. A
//! copy is as good as the answer: it has the same reads.

use std::cell::RefCell;
use std::hash::BuildHasher;

use quick_cache::DefaultHashBuilder;

use super::key::{Key, KeyRef};
use crate::answer::Answer;

/// The largest answer that is copied, in bytes. For larger ones, sending them
/// is what takes time.
const LARGEST: usize = 8 << 10;

/// How many answers a thread keeps at most: together up to 1 MiB.
const PLACES: usize = 128;

/// The cache's number, the question and the answer.
type Place = Option<(u64, Key, Answer)>;

thread_local! {
    static NEAR: RefCell<Near> = RefCell::new(Near {
        places: std::array::from_fn(|_| None),
        hasher: DefaultHashBuilder::default(),
    });
}

struct Near {
    places: [Place; PLACES],
    hasher: DefaultHashBuilder,
}

impl Near {
    fn place(&mut self, key: &KeyRef<'_>) -> &mut Place {
        #[expect(clippy::cast_possible_truncation, reason = "any part of a hash will do")]
        let hash = self.hasher.hash_one(key) as usize;
        &mut self.places[hash % PLACES]
    }
}

/// Uses this thread's copy of an answer, where it has one that is of use.
pub(super) fn find<T>(
    cache: u64,
    key: &KeyRef<'_>,
    wanted: impl FnOnce(&Answer) -> Option<T>,
) -> Option<T> {
    NEAR.with_borrow_mut(|near| match near.place(key) {
        Some((number, kept, answer)) if *number == cache && *key == kept.as_ref() => wanted(answer),
        _ => None,
    })
}

/// Keeps a copy of an answer.
pub(super) fn keep(cache: u64, key: &KeyRef<'_>, answer: &Answer) {
    if answer.size() <= LARGEST {
        NEAR.with_borrow_mut(|near| *near.place(key) = Some((cache, key.key(), answer.copy())));
    }
}
