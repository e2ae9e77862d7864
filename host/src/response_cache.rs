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
//! | `entries.rs` | answers by question, within a number of bytes |
//! | `questions.rs` | what was asked and is not remembered |
//! | `flights.rs` | runs that are shared by all who wait for them |

mod entries;
mod flights;
mod key;
mod questions;

use std::sync::Arc;

use bytesize::ByteSize;
use futures_util::FutureExt;
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use crate::answer::Answer;
use crate::module::{CallError, Module, ModuleRequest};
use crate::state::{Generation, Snapshot, StateReader};
use entries::{Entries, Miss};
pub use flights::Outcome;
use flights::{Flights, Landed};
pub use key::Question;
pub use questions::Asked;
use questions::{Questions, most};

/// How often a request waits for the run of another that turns out not to be
/// for it, before it has one of its own.
const PATIENCE: u32 = 4;

/// Remembers the answers of modules. Cheap to clone.
#[derive(Clone)]
pub struct ResponseCache {
    /// Nothing where nothing is to be remembered.
    memory: Option<Arc<Memory>>,
    questions: Arc<Questions>,
}

struct Memory {
    entries: Entries,
    flights: Arc<Flights>,
}

impl ResponseCache {
    /// A cache of this many bytes; of 0 remembers nothing.
    #[must_use]
    pub fn new(capacity: ByteSize) -> Self {
        let memory = |capacity| Memory { entries: Entries::new(capacity), flights: Arc::default() };
        let capacity = capacity.as_u64();
        Self {
            memory: (capacity > 0).then(|| Arc::new(memory(capacity))),
            questions: Arc::default(),
        }
    }

    /// The answer to a question, where it is remembered and still what the
    /// module would answer on this snapshot.
    #[must_use]
    pub fn find(
        &self,
        module: &Module,
        question: Question<'_>,
        snapshot: &Snapshot,
    ) -> Option<Arc<Answer>> {
        self.memory.as_ref()?.entries.find(module.digest(), question, snapshot).ok()
    }

    /// The answer to a request on a state that is not older than the request:
    /// remembered, of a run that others wait for, or of a run of its own.
    ///
    /// # Errors
    /// Where the module gives no answer. Errors are not remembered, and a shared
    /// run's error is passed on to identical requests only: another request under
    /// the same key, whose headers differ, has one run of its own.
    pub async fn ask(
        &self,
        module: &Module,
        request: Arc<ModuleRequest>,
        state: &StateReader,
    ) -> Outcome {
        let Some(memory) = &self.memory else { return self.alone(module, request, state).await };
        let question = Question::from(&*request);
        let arrival = state.peek().generation();
        for _ in 0..PATIENCE {
            let found = memory.entries.find(module.digest(), question, &state.peek());
            let key = match found {
                Ok(answer) => return Ok(answer),
                Err(Miss::Shared(key)) => key,
                Err(Miss::Pass) => break,
            };
            let (flight, is_ours) = memory.flights.join(&key, || {
                let run = run(Arc::clone(memory), module.clone(), request.clone(), state.clone());
                task(run.instrument(Span::current()), arrival, Arc::clone(&request)).boxed()
            });
            let landed = flight.await;
            let answer = match &landed.outcome {
                Ok(answer) => Arc::clone(answer),
                Err(_) if !is_ours && !landed.fails_for(&request) => break,
                // What went wrong on a state that is gone may go well now.
                Err(_) if !is_ours && landed.began < arrival => continue,
                Err(error) => return Err(Arc::clone(error)),
            };
            let reads = answer.reads();
            let is_fresh = || {
                answer.generation() >= arrival
                    || reads.are_current(&state.peek(), question.query, question.headers)
            };
            if is_ours && !reads.are_complete() {
                self.questions.count(module.digest(), &answer);
            }
            if is_ours || (reads.match_request(question.query, question.headers) && is_fresh()) {
                return Ok(answer);
            }
            if !reads.are_complete() {
                break;
            }
        }
        let answer = self.alone(module, request.clone(), state).await?;
        // Or the next ones would have to wait for another's failure, too.
        memory.entries.insert(module.digest(), question, &answer);
        Ok(answer)
    }

    /// A run for one request, which no other waits for.
    async fn alone(
        &self,
        module: &Module,
        request: Arc<ModuleRequest>,
        state: &StateReader,
    ) -> Outcome {
        let answer = alone(module, request, state).await?;
        self.questions.count(module.digest(), &answer);
        Ok(answer)
    }

    /// Remembers a module's answer to its question, in place of any before.
    pub fn insert(&self, module: &Module, answer: &Arc<Answer>) {
        if let Some(memory) = &self.memory {
            memory.entries.insert(module.digest(), Question::from(answer.question()), answer);
        }
    }

    /// What a module is asked, no more than this many: what is asked most
    /// first.
    #[must_use]
    pub fn most_asked(&self, module: &Module, count: usize) -> Vec<Asked> {
        let mut asked = Vec::new();
        if let Some(memory) = &self.memory {
            memory.entries.add(module.digest(), &mut asked);
        }
        self.questions.add(module.digest(), &mut asked);
        most(asked, count)
    }

    /// Drops the responses that were asked for once and not again.
    #[cfg(feature = "cli")]
    pub(crate) fn release_unused(&self) {
        if let Some(memory) = &self.memory {
            memory.entries.release_unused();
        }
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
    let (of, asked) = (module.clone(), Arc::clone(&request));
    let make = move |answer| Answer::new(&of, Question::from(&*asked), answer, generation);
    place.handle_and(request, snapshot, make).await.map(Arc::new).map_err(Into::into)
}

/// A run in a task of its own, so that those who wait for it are woken when it
/// has ended and no sooner, and that a panic is an error to all of them. It ends
/// when nobody waits for it any more.
async fn task(
    run: impl Future<Output = Landed> + Send + 'static,
    began: Generation,
    request: Arc<ModuleRequest>,
) -> Landed {
    let mut tasks = JoinSet::new();
    tasks.spawn(run);
    match tasks.join_next().await {
        Some(Ok(landed)) => landed,
        Some(Err(error)) => {
            let outcome = Err(Arc::new(CallError::Host(error.to_string())));
            Landed { outcome, began, request }
        }
        None => unreachable!("there is one"),
    }
}

/// A run for all who wait for it. Its answer is remembered before they go on.
async fn run(
    memory: Arc<Memory>,
    module: Module,
    request: Arc<ModuleRequest>,
    state: StateReader,
) -> Landed {
    let question = Question::from(&*request);
    let began = state.peek().generation();
    // Another run may have ended since it was looked for.
    let found = memory.entries.find(module.digest(), question, &state.peek());
    if let Ok(answer) = found {
        return Landed { outcome: Ok(answer), began, request };
    }
    let outcome = alone(&module, Arc::clone(&request), &state).await;
    if let Ok(answer) = &outcome {
        memory.entries.insert(module.digest(), question, answer);
    }
    Landed { outcome, began, request }
}
