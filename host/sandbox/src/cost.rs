//! The cost of an instance: the memory and work of creating it, before its handler is
//! called.
//!
//! It is read from the component's sections when the component is loaded, so that a
//! component with too expensive instances is rejected, and one that is slow to
//! instantiate does not block the threads that serve sockets.
//!
//! | file | job |
//! |---|---|
//! | `cost/section.rs` | the cost of each section of a core module |
//! | `cost/walk.rs` | the number of instances of each module of a component |

mod section;
#[cfg(test)]
mod tests;
mod walk;

use bytesize::ByteSize;
use serde::Serialize;

use super::limits::Limits;

/// The size of an element of a table, in bytes: a pointer.
pub(super) const ELEMENT_BYTES: usize = size_of::<usize>();

/// The maximum size of the host's data for one instance, apart from memories and tables,
/// in bytes. An interpreter of Python, with 38 core instances, takes less than 1 MiB.
/// Allocating and freeing this much takes some milliseconds, and cannot be interrupted.
const MAX_HOST_BYTES: u64 = 8 << 20;

/// An instance with more steps or more initial data is not created on a thread that
/// serves sockets: this much takes some tenths of a millisecond.
const MAX_STEPS: u64 = 20_000;
const MAX_DATA: u64 = 8 << 20;

/// The kinds of the host's data for an instance, as messages name them.
pub(super) const KINDS: [&str; 7] = [
    "core instances and memories",
    "imports",
    "functions and their exports",
    "globals, tags and tables",
    "passive segments",
    "component instances and canonical functions",
    "function names (`wasm-tools strip` removes them)",
];

/// An index into [`KINDS`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Instances,
    Imports,
    Functions,
    Globals,
    Segments,
    Component,
    Backtrace,
}

/// An upper bound of the memory and work that creating an instance of a component takes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct InstanceCost {
    /// The initial size of its linear memories, in bytes.
    pub memory: u64,
    /// The initial size of its tables, in bytes.
    pub tables: u64,
    /// The size of the host's other data for it, in bytes, by kind.
    #[serde(serialize_with = "sum")]
    host: [u64; KINDS.len()],
    /// The number of core modules that it instantiates.
    pub core_instances: u64,
    /// Steps that cannot be interrupted, such as writing an element of a table.
    #[serde(skip)]
    steps: u64,
    /// The size of its data segments, which may be copied, in bytes.
    #[serde(skip)]
    data: u64,
    /// Whether it has a start function.
    #[serde(skip)]
    has_start: bool,
}

/// The thread on which instances of a component are created, with or without a fiber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// On the thread of the request, without a fiber: no guest code runs.
    Inline,
    /// On the thread of the request and on a fiber: guest code runs, and yields.
    Fiber,
    /// On the threads for slow guests: creating one takes long, and does not yield.
    Background,
}

/// The reason that the instances of a component are too expensive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// More than `limits.memory`.
    Memory(String),
    /// More than the host keeps for any instance.
    Host(String),
}

impl InstanceCost {
    /// Reads the cost of an instance from a valid component.
    pub(super) fn from_component(component: &[u8]) -> Self {
        walk::cost(component)
    }

    /// Returns the size of the host's data for an instance, apart from its memories and
    /// tables, in bytes.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        self.host.iter().copied().fold(0, u64::saturating_add)
    }

    /// Returns the total size of an instance when it is created, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.memory.saturating_add(self.tables).saturating_add(self.host_bytes())
    }

    /// Returns an error if instances of this cost exceed the limits.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), Excess> {
        let size = ByteSize::b;
        let host = self.host_bytes();
        let (kind, bytes) = self.largest();
        let largest = format!("including {} for its {kind}", size(bytes));
        if ByteSize::b(self.total()) > limits.memory {
            let total = self.total();
            let memory = self.memory;
            let tables = self.tables;
            return Err(Excess::Memory(format!(
                "a new instance takes {}: {} of memories, {} of tables and {} of host data, {largest}",
                size(total),
                size(memory),
                size(tables),
                size(host),
            )));
        }
        if host > MAX_HOST_BYTES {
            let max = size(MAX_HOST_BYTES);
            return Err(Excess::Host(format!(
                "a new instance takes {} of host data, {largest}; the maximum is {max}",
                size(host),
            )));
        }
        Ok(())
    }

    pub(super) fn placement(&self) -> Placement {
        if self.steps > MAX_STEPS || self.data > MAX_DATA {
            Placement::Background
        } else if self.has_start {
            Placement::Fiber
        } else {
            Placement::Inline
        }
    }

    fn largest(&self) -> (&'static str, u64) {
        let kinds = KINDS.into_iter().zip(self.host);
        kinds.max_by_key(|(_, bytes)| *bytes).unwrap_or_default()
    }

    /// Adds a number of things of a kind, of `each` bytes.
    fn add_host(&mut self, kind: Kind, count: u64, each: u64) {
        let sum = &mut self.host[kind as usize];
        *sum = sum.saturating_add(count.saturating_mul(each));
    }

    fn add_steps(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
    }

    fn add(&mut self, other: &Self) {
        *self = self.zip(other, u64::saturating_add);
    }

    /// Returns the larger value of both in each respect.
    fn max(&self, other: &Self) -> Self {
        self.zip(other, u64::max)
    }

    fn times(&self, count: u64) -> Self {
        self.zip(self, |value, _| value.saturating_mul(count))
    }

    fn zip(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        let mut host = self.host;
        for (sum, value) in host.iter_mut().zip(other.host) {
            *sum = both(*sum, value);
        }
        Self {
            memory: both(self.memory, other.memory),
            tables: both(self.tables, other.tables),
            host,
            core_instances: both(self.core_instances, other.core_instances),
            steps: both(self.steps, other.steps),
            data: both(self.data, other.data),
            has_start: self.has_start || other.has_start,
        }
    }
}

fn sum<S: serde::Serializer>(host: &[u64; KINDS.len()], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(host.iter().copied().fold(0, u64::saturating_add))
}
