//! Versioned values: each has the generation of its last change.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use super::relayer::NotReady;

/// The number of a publication; it only increases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub(super) u64);

impl Generation {
    /// Returns the number, which grows with each publication.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// The generation of all recorded values.
pub(super) const RECORDED: Generation = Generation(0);

/// A part of the state that changes as a whole, with the generation of its last change.
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

    /// Returns recorded content whose form for modules is given, and not made from `value`.
    #[must_use]
    pub fn from_lowered<D: Send + Sync + 'static>(value: T, form: D) -> Self {
        let derived: OnceLock<Arc<dyn Any + Send + Sync>> = OnceLock::new();
        derived.set(Arc::new(form)).ok();
        Self { content: Arc::new(Content { value, generation: RECORDED, derived }) }
    }

    /// Returns recorded content.
    #[must_use]
    pub fn recorded(value: T) -> Self {
        Self::new(value, RECORDED)
    }

    /// Returns the content.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.content.value
    }

    /// Returns the generation, which changes if and only if the content changes.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.content.generation
    }

    /// Returns whether both are the same content, and not only equal ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.content, &other.content)
    }

    /// Returns the content in the form in which modules receive it. The form is made on
    /// first use and kept as long as the content.
    ///
    /// # Panics
    /// Panics if another type was used before: each content has only one form.
    pub fn lowered<D: Send + Sync + 'static>(&self, make: impl FnOnce(&T) -> D) -> Arc<D> {
        let derived = &self.content.derived;
        if derived.get().is_none() {
            // Concurrent callers each make one instead of waiting, and the first one is
            // kept.
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
    /// Returns this version if `value` equals its content, or else a new one.
    pub(super) fn with(&self, value: T, generation: Generation) -> Self {
        if *self.value() == value { self.clone() } else { Self::new(value, generation) }
    }
}

/// A fact about the relayer, or the reason why it is not known.
pub type Known<T> = Result<T, NotReady>;
