//! Are the README and the docs correct? Their commands are run, and their tables, JSON and
//! links are compared with the code.
//!
//! Tables between `<!-- generated: NAME -->` and `<!-- end -->` are made from the code:
//! with `UPDATE_DOCS=1` in the environment, these tests write them.
//!
//! | file | job |
//! |---|---|
//! | `readme.rs` | `README.md` |
//! | `api.rs`, `configuration.rs`, `debugging.rs`, `embedding.rs`, `extensions.rs`, `first_extension.rs`, `live.rs`, `modules.rs`, `operations.rs`, `security.rs` | the page of this name |
//! | `new.rs` | the modules that `relayer-rest new` creates, and their README |
//! | `author.rs` | the folder of an author's package |
//! | `files.rs` | the map of files, and the tables of files |
//! | `host_metrics.rs` | the queries of the Grafana dashboard and of the alerts |
//! | `links.rs` | links and file names in all pages |
//! | `page.rs` | the parts of a page |
//! | `reader.rs` | a reader, with a terminal |

mod api;
mod author;
mod configuration;
mod debugging;
mod embedding;
mod extensions;
mod files;
mod first_extension;
mod host_metrics;
mod links;
mod live;
mod modules;
mod new;
mod operations;
mod page;
mod reader;
mod readme;
mod security;
