//! Does docs/configuration.md have each setting, with its default and range?

use std::collections::BTreeMap;
use std::fmt::Write;

use relayer_rest_host::config::{Config, ConfigProblem, DEFAULT, LIMITS, Limit};
use relayer_rest_host::conformance::Dialect;

use super::page::{Page, code};

/// The sections of which there can be several.
const LISTS: [&str; 3] = ["extension", "listen", "listen.tls"];

/// The settings by section: the keys, with their defaults.
type Settings = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the settings of `config default`, which are commented out.
fn defaults() -> Settings {
    let mut settings = Settings::new();
    let mut section = String::new();
    for line in DEFAULT.lines() {
        let Some(line) = line.strip_prefix("# ") else { continue };
        let is_key = |key: &str| {
            key.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
        };
        if line.starts_with('[') && line.ends_with(']') {
            line.trim_matches(['[', ']']).clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once(" = ")
            && is_key(key)
            && !section.is_empty()
        {
            settings.entry(section.clone()).or_default().insert(key.to_owned(), value.to_owned());
        }
    }
    settings
}

fn page() -> Page {
    Page::read("docs/configuration.md")
}

/// Returns the rows of a section: key, default, range and meaning.
fn rows(section: &str) -> Vec<Vec<String>> {
    let brackets =
        if LISTS.contains(&section) { format!("[[{section}]]") } else { format!("[{section}]") };
    page().tables(&format!("## `{brackets}`"))
}

#[test]
fn each_setting_is_listed() {
    // Another test writes the tables then.
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return;
    }
    let defaults = defaults();
    let sections: Vec<_> = defaults.keys().map(String::as_str).collect();
    assert_eq!(
        sections,
        [
            "access-log",
            "admin",
            "capsules",
            "commands",
            "cors",
            "extension",
            "fleet",
            "http",
            "listen",
            "listen.tls",
            "live",
            "log",
            "module",
            "module.failure-policy",
            "module.limits",
            "registries",
            "relayer",
            "server",
            "swap",
            "telemetry",
            "upstream"
        ]
    );
    for (section, keys) in defaults {
        let mut listed: Vec<_> =
            rows(&section).iter().map(|row| code(&row[0]).to_owned()).collect();
        listed.sort();
        assert!(
            listed.iter().eq(keys.keys()),
            "[{section}]: {listed:?} is not {keys:?}; run `just docs`"
        );
    }
}

#[test]
fn the_tables_match_the_limits() {
    for (section, limits) in LIMITS {
        let mut table = "| key | default | range | meaning |\n|---|---|---|---|\n".to_owned();
        for Limit { key, default, range, meaning } in limits {
            writeln!(table, "| `{key}` | `{default}` | {range} | {meaning} |").unwrap();
        }
        page().check_generated(section, &table);
    }
}

#[test]
fn the_listed_defaults_are_the_defaults() {
    for key in ["dialect", "wasi", "headers"] {
        let rows = rows("module");
        let row = rows.iter().find(|row| code(&row[0]) == key).unwrap();
        let text = format!("[module]\n{key} = {}", code(&row[1]));
        let mut config = Config::parse(&text).unwrap();
        // Without one, the dialect is the relayer's or the default.
        config.module.dialect = config.module.dialect.filter(|named| *named != Dialect::default());
        assert_eq!(config, Config::default(), "{text}");
    }
}

/// Each limit is checked at both ends of its range, and the error names the range.
#[test]
fn the_ranges_of_the_limits_are_checked() {
    for (section, limits) in LIMITS {
        for Limit { key, default, range, .. } in limits {
            let quote = if default.starts_with('"') { "\"" } else { "" };
            let (least, most) = range.split_once(" to ").unwrap();
            let parse =
                |value: &str| Config::parse(&format!("[{section}]\n{key} = {quote}{value}{quote}"));
            for value in [least, most] {
                assert!(parse(value).is_ok(), "{section}.{key} = {value}");
            }
            for value in ["0", "4000000000", "0B", "9999TiB", "0ms", "9999days"] {
                if let Err(ConfigProblem::Limit { error, .. }) = parse(value) {
                    assert_eq!((error.key, error.range), (*key, *range), "{section}");
                }
            }
            let beyond = match quote {
                "" => "4000000000",
                _ if most.ends_with('B') => "9999TiB",
                _ => "9999days",
            };
            assert!(matches!(parse(beyond), Err(ConfigProblem::Limit { .. })), "{section}.{key}");
        }
    }
}
