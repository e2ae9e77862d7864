//! Does docs/configuration.md have each setting, with its default and range?

use std::collections::BTreeMap;
use std::fmt::Write;

use relayer_rest_host::config::{Config, DEFAULT, Problem};

use super::page::{Page, code};

/// The settings by section: the keys, with their defaults.
type Settings = BTreeMap<String, BTreeMap<String, String>>;

/// The sections with limits, which have ranges.
const LIMITS: [&str; 5] = ["module.limits", "module.budget", "http", "upstream", "swap"];

/// Values that are too small, or too large, for each kind of key.
const EXTREMES: [&str; 6] = ["0", "4000000000", "\"0B\"", "\"9999TiB\"", "\"0ms\"", "\"9999days\""];

/// Returns the settings of `config default`, which are commented out.
fn defaults() -> Settings {
    let mut settings = Settings::new();
    let mut section = String::new();
    for line in DEFAULT.lines() {
        let Some(line) = line.strip_prefix("# ") else { continue };
        let is_key =
            |key: &str| key.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
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
        if section == "extension" { "[[extension]]".to_owned() } else { format!("[{section}]") };
    page().table(&format!("## `{brackets}`"))
}

#[test]
fn each_setting_is_listed() {
    let defaults = defaults();
    let sections: Vec<_> = defaults.keys().map(String::as_str).collect();
    assert_eq!(
        sections,
        ["extension", "http", "module", "module.budget", "module.limits", "swap", "upstream"]
    );
    for (section, keys) in defaults {
        let mut listed: Vec<_> =
            rows(&section).iter().map(|row| code(&row[0]).to_owned()).collect();
        listed.sort();
        assert!(listed.iter().eq(keys.keys()), "[{section}]: {listed:?} is not {keys:?}");
    }
}

#[test]
fn the_defaults_are_those_of_the_settings() {
    let mut text = String::new();
    for section in LIMITS {
        let defaults = &defaults()[section];
        writeln!(text, "[{section}]").unwrap();
        for row in rows(section) {
            let (key, default) = (code(&row[0]), code(&row[1]));
            assert_eq!(default, defaults[key], "{section}.{key}");
            writeln!(text, "{key} = {default}").unwrap();
        }
    }
    assert_eq!(Config::parse(&text).unwrap(), Config::default());
    for key in ["dialect", "wasi", "headers"] {
        let rows = rows("module");
        let row = rows.iter().find(|row| code(&row[0]) == key).unwrap();
        let text = format!("[module]\n{key} = {}", code(&row[1]));
        assert_eq!(Config::parse(&text).unwrap(), Config::default(), "{text}");
    }
}

#[test]
fn the_ranges_are_those_of_the_settings() {
    for section in LIMITS {
        for row in rows(section) {
            let (key, range) = (code(&row[0]), &row[2]);
            let is_list = key == "hosts";
            let list = format!("[{}]", "\"a\", ".repeat(257));
            let extremes =
                EXTREMES.iter().copied().filter(|_| !is_list).chain(is_list.then_some(&*list));
            let ranges: Vec<_> = extremes
                .filter_map(|value| match Config::parse(&format!("[{section}]\n{key} = {value}")) {
                    Err(Problem::Limit { error, .. }) => Some(error.range),
                    _ => None,
                })
                .collect();
            let is_any = range == "any number";
            assert_eq!(ranges.is_empty(), is_any, "{section}.{key}");
            assert!(ranges.iter().all(|known| known == range), "{section}.{key}: {ranges:?}");
        }
    }
}
