//! Questions whose answers are not remembered: what a new module is to be
//! asked where there is no answer to compare with.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quick_cache::sync::Cache;

use super::key::{Key, KeyRef, Question};
use crate::answer::Answer;
use crate::module::{Digest, ModuleRequest};

/// The questions that are kept, at most.
const MOST: usize = 256;

/// A longer target, in bytes, or more headers: not kept.
const LONGEST: usize = 1024;
const MOST_HEADERS: usize = 16;

/// A question, how often it was asked, and the answer where that is
/// remembered.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The question, with those headers only that were read, and with the query
    /// only if it was read.
    pub question: Arc<ModuleRequest>,
    /// About how often it was asked.
    pub times: u64,
    /// The answer, which may be out of date.
    pub answer: Option<Arc<Answer>>,
}

pub(super) struct Questions(Cache<Key, Arc<Counted>>);

struct Counted {
    question: Arc<ModuleRequest>,
    times: AtomicU64,
}

impl Default for Questions {
    fn default() -> Self {
        Self(Cache::new(MOST))
    }
}

impl Questions {
    /// Counts the question of an answer that nobody remembers.
    pub(super) fn count(&self, module: Digest, answer: &Answer) {
        let question = answer.question();
        if question.target.as_str().len() > LONGEST || question.headers.len() > MOST_HEADERS {
            return;
        }
        let key = KeyRef::new(module, Question::from(question));
        if let Some(counted) = self.0.get(&key) {
            counted.times.fetch_add(1, Relaxed);
        } else {
            let question = Arc::new(question.clone());
            self.0.insert(key.key(), Arc::new(Counted { question, times: AtomicU64::new(1) }));
        }
    }

    /// Adds the questions to a module.
    pub(super) fn add(&self, module: Digest, asked: &mut Vec<Asked>) {
        let of_module = self.0.iter().filter(|(key, _)| key.module() == module);
        asked.extend(of_module.map(|(_, counted)| Asked {
            question: Arc::clone(&counted.question),
            times: counted.times.load(Relaxed),
            answer: None,
        }));
    }
}

/// Those first that are asked most, and no more of them.
pub(super) fn most(mut asked: Vec<Asked>, count: usize) -> Vec<Asked> {
    asked.sort_by_key(|asked| Reverse(asked.times));
    asked.truncate(count);
    asked
}
