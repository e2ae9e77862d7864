//! Texts, files, limits and priorities, for the other crates of relayer-rest.
//!
//! | file | job |
//! |---|---|
//! | `backoff.rs` | exponential backoff with jitter |
//! | `bounded_json.rs` | parses JSON in bounded memory |
//! | `digest.rs` | the version of a component |
//! | `files.rs` | reads files up to a size, without waiting for writers of pipes |
//! | `histogram.rs` | histograms of times, without a lock |
//! | `limit.rs` | the tables of limits: fields, defaults, ranges, checks and documentation |
//! | `log_rate.rs` | rate limits for log messages |
//! | `priority.rs` | lowers the priority of a thread |
//! | `processes.rs` | waits for a child process |
//! | `stable_file.rs` | reads a file once it no longer changes |
//! | `text.rs` | truncates and escapes texts of others |
//! | `threads.rs` | checks that threads can be started; threads with runtimes |
//! | `toml_text.rs` | sizes, times and errors in TOML files |
//! | `url_secrets.rs` | removes secrets from URLs |

pub mod backoff;
pub mod bounded_json;
pub mod digest;
pub mod files;
pub mod histogram;
pub mod limit;
pub mod log_rate;
pub mod priority;
pub mod processes;
pub mod stable_file;
pub mod text;
pub mod threads;
pub mod toml_text;
pub mod url_secrets;

pub use digest::{Digest, DigestError};
pub use limit::LimitError;
pub use toml_text::Position;
