//! x
pub mod module;
pub mod state;
mod toml_text;
