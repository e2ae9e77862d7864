//! The tests with programs from outside, which not every machine has: each file
//! asks one question, and says which programs that takes.
//!
//! ```sh
//! cargo test --workspace --test outside -- --ignored
//! ```

mod browser;
mod dashboard;
mod languages;
mod metrics;
mod relayers;
