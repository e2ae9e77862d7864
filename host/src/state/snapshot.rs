//! A relayer at one moment.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use super::relayer::{Component, NotReady, RelayerState};
use super::{ChainConfig, ChainId};

/// When something was published: a number that only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub(super) u64);

/// A part of the state that changes as one, and since when it is as it is.
/// Cheap to clone.
#[derive(Debug)]
pub struct Versioned<T> {
    content: Arc<Content<T>>,
}

#[derive(Debug)]
struct Content<T> {
    value: T,
    generation: Generation,
    derived: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl<T> Versioned<T> {
    pub(super) fn new(value: T, generation: Generation) -> Self {
        Self { content: Arc::new(Content { value, generation, derived: OnceLock::new() }) }
    }

    /// The content.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.content.value
    }

    /// Changes when the content does, and only then.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.content.generation
    }

    /// The content in the form in which it is handed to modules. It is made
    /// when it is first asked for, and kept as long as the content.
    ///
    /// There is one form of each content: callers agree on `D`.
    pub(crate) fn lowered<D: Send + Sync + 'static>(&self, make: impl FnOnce(&T) -> D) -> Arc<D> {
        let derived = &self.content.derived;
        if derived.get().is_none() {
            // Whoever asks at the same time makes one, too: nobody waits for
            // another's, and the first to be done is kept.
            let form: Arc<dyn Any + Send + Sync> = Arc::new(make(self.value()));
            derived.set(form).ok();
        }
        let form = derived.get().expect("it is set by now");
        Arc::clone(form).downcast().expect("a content has one derived form")
    }
}

impl<T> Clone for Versioned<T> {
    fn clone(&self) -> Self {
        Self { content: Arc::clone(&self.content) }
    }
}

impl<T: PartialEq> Versioned<T> {
    /// A slice with this content: the same slice where nothing changes.
    pub(super) fn with(&self, value: T, generation: Generation) -> Self {
        if *self.value() == value { self.clone() } else { Self::new(value, generation) }
    }
}

/// Something about the relayer, or why it is not known.
pub type Known<T> = Result<T, NotReady>;

/// A relayer at one moment. It never changes: what is published later is
/// another snapshot, which shares the slices that are the same.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) generation: Generation,
    pub(super) changed: Changed,
    pub(super) components: Versioned<Vec<Component>>,
    pub(super) chain_ids: Versioned<Known<Vec<ChainId>>>,
    pub(super) chains: HashMap<ChainId, Versioned<ChainConfig>>,
    pub(super) status: Versioned<Known<RelayerState>>,
    /// What it was doing before that was not known any more.
    pub(super) before_not_ready: Option<Versioned<Known<RelayerState>>>,
    pub(super) stale: Option<Stale>,
    /// The same moment on the clock that everybody has.
    pub(super) unconfirmed_since: Option<SystemTime>,
}

/// When something of a relayer last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The generation of what changed: nothing that is shown has a newer one.
    pub generation: Generation,
    /// The time.
    pub time: SystemTime,
}

/// What is known is no longer confirmed by its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// When it was last confirmed.
    pub since: Instant,
    /// Whether the chains are of that source, too.
    pub chains: bool,
}

impl Snapshot {
    /// Nothing is known. In place of the relayer's version stands this
    /// crate's.
    pub(super) fn empty() -> Self {
        let start = Generation(0);
        Self {
            generation: start,
            changed: Changed { generation: start, time: SystemTime::now() },
            components: Versioned::new(
                vec![Component {
                    name: "ibc-relayer".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                }],
                start,
            ),
            chain_ids: Versioned::new(Err(NotReady::default()), start),
            chains: HashMap::new(),
            status: Versioned::new(Err(NotReady::default()), start),
            before_not_ready: None,
            stale: None,
            unconfirmed_since: None,
        }
    }

    pub(super) fn set_stale(&mut self, stale: Option<Stale>) {
        if self.stale != stale {
            self.stale = stale;
            let before = |stale: Stale| SystemTime::now().checked_sub(stale.since.elapsed());
            self.unconfirmed_since = stale.and_then(before);
        }
    }

    /// Grows with each publication, whatever it changes.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// When something that is shown last changed.
    #[must_use]
    pub fn changed(&self) -> Changed {
        self.changed
    }

    /// The relayer's parts, `ibc-relayer` first.
    #[must_use]
    pub fn components(&self) -> &Versioned<Vec<Component>> {
        &self.components
    }

    /// The configured chains, in their order.
    #[must_use]
    pub fn chain_ids(&self) -> &Versioned<Known<Vec<ChainId>>> {
        &self.chain_ids
    }

    /// A chain's configuration.
    #[must_use]
    pub fn chain(&self, id: &str) -> Option<&Versioned<ChainConfig>> {
        self.chains.get(id)
    }

    /// Since when the source has not confirmed what it said, where it should
    /// have.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        self.stale
    }

    /// The same, on the clock that everybody has.
    #[must_use]
    pub fn unconfirmed_since(&self) -> Option<SystemTime> {
        self.unconfirmed_since
    }

    /// Whether something of it is of this generation.
    pub(super) fn has(&self, generation: Generation) -> bool {
        self.components.generation() == generation
            || self.chain_ids.generation() == generation
            || self.status.generation() == generation
            || self.chains.values().any(|chain| chain.generation() == generation)
    }

    /// What the relayer is doing, sorted.
    #[must_use]
    pub fn status(&self) -> &Versioned<Known<RelayerState>> {
        &self.status
    }
}
