//! The settings of `relayer-rest` itself, which have no place in the
//! relayer's file. Every key with its meaning, unit and default.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::module::{LimitError, Limits};
use crate::toml_text::{self, Position, dotted};

/// What `--config FILE` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The section `[module]`: the module that serves the API.
    pub module: ModuleConfig,
}

/// The module that serves the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModuleConfig {
    /// The component, relative to the folder of the configuration file.
    /// Default: the module that comes with `relayer-rest`.
    pub file: Option<PathBuf>,
    /// The section `[module.limits]`: what the module may use.
    pub limits: Limits,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration {}: cannot be read: {source}; check the path and its permissions", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What it says is not a configuration.
    #[error("configuration {}: {problem}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: Problem,
    },
}

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is not TOML, or a key is unknown or of a wrong type.
    #[error("{position}: {}{message}", place(key))]
    Text {
        /// Where.
        position: Position,
        /// The key, where the fault is in a value.
        key: String,
        /// What.
        message: String,
    },
    /// A limit is out of its range.
    #[error("{section}.{error}")]
    Limit {
        /// The section of the limit.
        section: &'static str,
        /// Which limit, and its range.
        error: LimitError,
    },
}

impl Config {
    /// Reads a file. Paths in it become relative to the present folder.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
        let mut config = Self::parse(&text)
            .map_err(|problem| ConfigError::Invalid { file: file.to_owned(), problem })?;
        let folder = file.parent().unwrap_or(Path::new(""));
        config.module.file = config.module.file.map(|module| folder.join(module));
        Ok(config)
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let config: Self = toml_text::parse(text).map_err(|fault| Problem::Text {
            position: fault.position.unwrap_or(Position { line: 1, column: 1 }),
            key: dotted(&fault.path),
            message: fault.message,
        })?;
        config
            .module
            .limits
            .check()
            .map_err(|error| Problem::Limit { section: "module.limits", error })?;
        Ok(config)
    }
}

fn place(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

#[cfg(test)]
mod tests {
    use super::Config;
    use bytesize::ByteSize;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn every_key_is_read() {
        let config = Config::parse(
            "[module]\nfile = 'api.wasm'\n[module.limits]\nmemory = '16MiB'\ntime = '250ms'\n\
             concurrency = 8\nqueue = 9\nqueue_wait = '2s'\nresponse_cache = '0B'\n",
        )
        .unwrap();
        let limits = config.module.limits;
        assert_eq!(config.module.file.as_deref(), Some(Path::new("api.wasm")));
        assert_eq!(limits.memory, ByteSize::mib(16));
        assert_eq!(limits.time, Duration::from_millis(250));
        assert_eq!((limits.concurrency, limits.queue), (8, 9));
        assert_eq!(limits.queue_wait, Duration::from_secs(2));
        assert_eq!(limits.response_cache, ByteSize::b(0));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, message) in [
            ("[modul]", "line 1, column 2: modul: unknown field `modul`, expected `module`"),
            (
                "[module.limits]\nmemory = true",
                "line 2, column 10: module.limits.memory: invalid type: boolean `true`",
            ),
            (
                "[module.limits]\n\nqueue = -1",
                "line 3, column 9: module.limits.queue: invalid value",
            ),
            ("[module", "line 1, column 8: "),
            (
                "[module.limits]\nmemory = '64 bananas'",
                "line 2, column 10: module.limits.memory: '64 bananas' is not a size",
            ),
            (
                "[module.limits]\ntime = '1 fortnight'",
                "line 2, column 8: module.limits.time: '1 fortnight' is not a duration",
            ),
            ("[module.limits]\nmemory = '1KiB'", "module.limits.memory is 1.0 KiB; it can be"),
            ("[module.limits]\ntime = '1us'", "module.limits.time is 1µs; it can be 1ms to 1h"),
            ("[module.limits]\ntime = '300000000000years'", "module.limits.time is "),
            ("[module.limits]\nqueue_wait = '2h'", "module.limits.queue_wait is 7200s; it can be"),
            (
                "[module.limits]\nresponse_cache = '65GiB'",
                "module.limits.response_cache is 65.0 GiB; it can be 0B to 64GiB",
            ),
            ("[module.limits]\nconcurrency = 0", "module.limits.concurrency is 0; it can be"),
        ] {
            let problem = Config::parse(text).unwrap_err().to_string();
            assert!(problem.starts_with(message), "{text}: {problem}");
        }
    }
}
