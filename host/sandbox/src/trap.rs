//! Traps, by their kinds.

use std::fmt::{self, Display, Formatter};

use wasmtime::Trap;

/// A trap of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trapped {
    /// Its kind.
    pub kind: TrapKind,
    /// Its cause, and its location if that is known.
    pub cause: String,
}

/// A kind of traps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrapKind {
    /// The module reported the cause, such as a panic.
    Panic,
    /// The module reached an `unreachable` instruction.
    Unreachable,
    /// Its calls were nested too deeply.
    StackOverflow,
    /// It was refused memory or elements of a table before.
    OutOfMemory,
    /// It accessed memory or a table out of bounds, or called a function that is not there.
    OutOfBounds,
    /// It divided by zero, or a number did not fit.
    Arithmetic,
    /// Any other trap, such as one of an import.
    Other,
}

impl TrapKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Panic,
        Self::Unreachable,
        Self::StackOverflow,
        Self::OutOfMemory,
        Self::OutOfBounds,
        Self::Arithmetic,
        Self::Other,
    ];

    /// Returns the name of the kind, as in the metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Unreachable => "unreachable",
            Self::StackOverflow => "stack_overflow",
            Self::OutOfMemory => "out_of_memory",
            Self::OutOfBounds => "out_of_bounds",
            Self::Arithmetic => "arithmetic",
            Self::Other => "other",
        }
    }

    /// Returns the kind of a trap of the engine, if it is one.
    pub(super) fn new(trap: Option<&Trap>) -> Self {
        match trap {
            Some(Trap::UnreachableCodeReached) => Self::Unreachable,
            Some(Trap::StackOverflow) => Self::StackOverflow,
            Some(
                Trap::MemoryOutOfBounds
                | Trap::TableOutOfBounds
                | Trap::IndirectCallToNull
                | Trap::BadSignature,
            ) => Self::OutOfBounds,
            Some(
                Trap::IntegerOverflow | Trap::IntegerDivisionByZero | Trap::BadConversionToInteger,
            ) => Self::Arithmetic,
            _ => Self::Other,
        }
    }
}

impl Display for Trapped {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}
