//! The tests that need a program of somebody else's: each file names it, and is
//! run with `cargo test --test outside -- --ignored`.

mod metrics;
