//! Answers by question, within a number of bytes.
//!
//! What is kept when there is no room is the choice of a library that resists
//! scans: questions that are asked once do not push out those that are asked
//! again and again.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::key::{Inputs, Key, KeyRef, Question};
use super::questions::Asked;
use crate::answer::Answer;
use crate::module::Digest;
use crate::state::Snapshot;

/// What an answer to a chain or an error takes, in bytes; the library wants to
/// know how many entries there may be.
const USUAL_SIZE: u64 = 2048;

/// What the library takes for an entry, in bytes.
const OVERHEAD: usize = 128;

/// More headers than this are not worth telling requests apart by.
const MOST_HEADERS: usize = 16;

pub(super) struct Entries(Cache<Key, Entry, Size>);

/// What stands under a question.
#[derive(Clone)]
enum Entry {
    Answer(Arc<Answer>),
    /// The answer depends on these inputs: it stands under the question with the
    /// values that the request has for them.
    Varies(Arc<Inputs>),
    /// The responses are not cached, because of all that they depend on: requests do
    /// not wait for the runs of others.
    Pass,
}

/// Why no cached response is returned.
pub(super) enum Miss {
    /// Requests under this key can share a run.
    Shared(Key),
    Pass,
}

#[derive(Clone)]
struct Size;

impl Weighter<Key, Entry> for Size {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        let entry = match entry {
            Entry::Answer(answer) => answer.size(),
            Entry::Varies(inputs) => inputs.size(),
            Entry::Pass => 0,
        };
        (OVERHEAD + key.size() + entry) as u64
    }
}

impl Entries {
    pub(super) fn new(capacity: u64) -> Self {
        let count = usize::try_from(capacity / USUAL_SIZE).unwrap_or(usize::MAX).max(16);
        let options = OptionsBuilder::new()
            .weight_capacity(capacity)
            .estimated_items_capacity(count)
            // Each shard has a part of the capacity: more than one, and an
            // answer of more than that part would not fit.
            .shards(1)
            .build()
            .expect("all that has to be set is set");
        let lifecycle = DefaultLifecycle::default();
        Self(Cache::with_options(options, Size, DefaultHashBuilder::default(), lifecycle))
    }

    /// The answer that is remembered and is still the one, or else the key to
    /// ask under.
    pub(super) fn find(
        &self,
        module: Digest,
        question: Question<'_>,
        snapshot: &Snapshot,
    ) -> Result<Arc<Answer>, Miss> {
        let key = KeyRef::new(module, question);
        let current = |entry| match entry {
            Some(Entry::Answer(answer))
                if answer.reads().are_current(snapshot, question.query, question.headers) =>
            {
                answer.count(1);
                Some(answer)
            }
            _ => None,
        };
        match self.0.get(&key) {
            Some(Entry::Varies(inputs)) => {
                let values = inputs.encode(question);
                let key = key.with(&values);
                current(self.0.get(&key)).ok_or_else(|| Miss::Shared(key.key()))
            }
            Some(Entry::Pass) => Err(Miss::Pass),
            entry => current(entry).ok_or_else(|| Miss::Shared(key.key())),
        }
    }

    /// Remembers an answer in place of any before.
    pub(super) fn insert(&self, module: Digest, question: Question<'_>, answer: &Arc<Answer>) {
        let key = KeyRef::new(module, question);
        let before = self.0.peek(&key);
        let known = match &before {
            Some(Entry::Varies(inputs)) => Arc::clone(inputs),
            _ => Arc::default(),
        };
        let inputs = known.and(answer.reads());
        if !answer.reads().are_complete() || inputs.header_count() > MOST_HEADERS {
            // Other requests may have responses that can be cached.
            if before.is_none() {
                self.0.insert(key.key(), Entry::Pass);
            }
            return;
        }
        let entry = Entry::Answer(Arc::clone(answer));
        let insert = |key: KeyRef<'_>| {
            if let Some(Entry::Answer(before)) = self.0.peek(&key) {
                answer.count(before.asked());
            }
            self.0.insert(key.key(), entry);
        };
        if inputs.are_none() {
            return insert(key);
        }
        let values = inputs.encode(question);
        if inputs != *known {
            self.0.insert(key.key(), Entry::Varies(inputs.into()));
        }
        insert(key.with(&values));
    }

    /// Adds the questions to a module whose answers are here.
    pub(super) fn add(&self, module: Digest, asked: &mut Vec<Asked>) {
        asked.extend(self.0.iter().filter_map(|(key, entry)| match entry {
            Entry::Answer(answer) if key.module() == module => Some(Asked {
                question: Arc::new(answer.question().clone()),
                times: answer.asked(),
                answer: Some(answer),
            }),
            _ => None,
        }));
    }

    /// Drops the responses that were asked for once and not again.
    #[cfg(feature = "cli")]
    pub(super) fn release_unused(&self) {
        self.0.retain(|_, entry| match entry {
            Entry::Answer(answer) => answer.asked() > 1,
            Entry::Varies(_) | Entry::Pass => true,
        });
    }

    pub(super) fn size(&self) -> u64 {
        self.0.weight()
    }
}
