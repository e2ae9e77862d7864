//! The documentation, executed.

mod embedding;
mod first_extension;
mod new;
mod readme;
