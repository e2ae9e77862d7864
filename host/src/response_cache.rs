//! Answers that are remembered.
//!
//! A module is a pure function of the request and of what it read, and all
//! reads are recorded. So an answer is good for whoever asks the same for as
//! long as everything that it was made from is as it was; and those who ask
//! the same at the same time can share one run of the module.
//!
//! | file | job |
//! |---|---|
//! | `key.rs` | what is the same question |
//! | `near.rs` | copies of answers that each thread has for itself |
//! | `entries.rs` | answers by question, within a number of bytes |
//! | `flights.rs` | runs that are shared by all who wait for them |

mod entries;
mod flights;
mod key;
mod near;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytesize::ByteSize;
use futures_util::FutureExt;
use tracing::{Instrument, Span};

use crate::answer::Answer;
use crate::module::{Module, ModuleRequest};
use crate::state::{Snapshot, StateReader};
use entries::Entries;
use flights::Flights;
pub use flights::Outcome;
use key::KeyRef;
pub use key::Question;

/// How often a request waits for the run of another that turns out not to be
/// for it, before it has one of its own.
const PATIENCE: u32 = 4;

/// Remembers the answers of modules. Cheap to clone.
#[derive(Clone)]
pub struct ResponseCache {
    /// Nothing where nothing is to be remembered.
    memory: Option<Arc<Memory>>,
}

struct Memory {
    /// Tells this cache from any other of the process.
    number: u64,
    entries: Entries,
    flights: Arc<Flights>,
}

impl ResponseCache {
    /// A cache of this many bytes; of 0 remembers nothing.
    #[must_use]
    pub fn new(capacity: ByteSize) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let memory = |capacity| Memory {
            number: COUNT.fetch_add(1, Relaxed),
            entries: Entries::new(capacity),
            flights: Arc::default(),
        };
        let capacity = capacity.as_u64();
        Self { memory: (capacity > 0).then(|| Arc::new(memory(capacity))) }
    }

    /// Makes something of the answer to a question, where it is remembered and
    /// still what the module would answer on this snapshot.
    pub fn find<T>(
        &self,
        module: &Module,
        question: Question<'_>,
        snapshot: &Snapshot,
        use_it: impl Fn(&Answer) -> Option<T>,
    ) -> Option<T> {
        let memory = self.memory.as_ref()?;
        let key = KeyRef::new(module.digest(), question);
        let near = near::find(memory.number, &key, |answer| {
            let is_current = answer.reads().are_current(snapshot, question.headers);
            if is_current { use_it(answer) } else { None }
        });
        near.or_else(|| {
            let answer = memory.entries.find(module.digest(), question, snapshot).ok()?;
            let made = use_it(&answer)?;
            near::keep(memory.number, &key, &answer);
            Some(made)
        })
    }

    /// The answer to a request on a state that is not older than the request:
    /// remembered, of a run that others wait for, or of a run of its own.
    ///
    /// # Errors
    /// Where the module gives no answer. Errors are not remembered, but those
    /// who share a run share its error.
    pub async fn ask(
        &self,
        module: &Module,
        request: Arc<ModuleRequest>,
        state: &StateReader,
    ) -> Outcome {
        let Some(memory) = &self.memory else { return alone(module, request, state).await };
        let question = Question::from(&*request);
        let arrival = state.peek().generation();
        for _ in 0..PATIENCE {
            let found = memory.entries.find(module.digest(), question, &state.peek());
            let key = match found {
                Ok(answer) => return Ok(answer),
                Err(key) => key,
            };
            let (flight, is_ours) = memory.flights.join(&key, || {
                let run = run(Arc::clone(memory), module.clone(), request.clone(), state.clone());
                run.instrument(Span::current()).boxed()
            });
            let answer = flight.await?;
            let reads = answer.reads();
            let is_fresh = || {
                answer.generation() >= arrival || reads.are_current(&state.peek(), question.headers)
            };
            if is_ours || (reads.headers_are(question.headers) && is_fresh()) {
                return Ok(answer);
            }
            if !reads.are_complete() {
                break;
            }
        }
        alone(module, request, state).await
    }

    /// The bytes that are in use.
    #[must_use]
    pub fn size(&self) -> ByteSize {
        ByteSize::b(self.memory.as_ref().map_or(0, |memory| memory.entries.size()))
    }
}

/// A run for one request.
async fn alone(module: &Module, request: Arc<ModuleRequest>, state: &StateReader) -> Outcome {
    let place = module.place().await?;
    let snapshot = state.snapshot();
    let generation = snapshot.generation();
    let answer = place.handle(request, snapshot).await?;
    Ok(Arc::new(Answer::new(answer, generation)))
}

/// A run for all who wait for it. Its answer is remembered before they go on.
async fn run(
    memory: Arc<Memory>,
    module: Module,
    request: Arc<ModuleRequest>,
    state: StateReader,
) -> Outcome {
    let question = Question::from(&*request);
    // Another run may have ended since it was looked for.
    let found = memory.entries.find(module.digest(), question, &state.peek());
    if let Ok(answer) = found {
        return Ok(answer);
    }
    let answer = alone(&module, Arc::clone(&request), &state).await?;
    memory.entries.insert(module.digest(), question, &answer);
    Ok(answer)
}
