//! Are the defaults in docs/security.md those of the settings?

use relayer_rest_host::config::LIMITS;

use super::page::Page;

/// Returns the default of a limit, as the settings write it.
fn default(section: &str, key: &str) -> Option<&'static str> {
    let sections = LIMITS.iter().filter(|(name, _)| *name == section);
    let mut limits = sections.flat_map(|(_, limits)| limits.iter());
    limits.find(|limit| limit.key == key).map(|limit| limit.default)
}

/// Returns a value as the page or the settings write it: `20,000`, `64 MiB` or `"64MiB"`.
fn plain(value: &str) -> String {
    value.chars().filter(char::is_ascii_alphanumeric).collect()
}

#[test]
fn defaults_match_the_settings() {
    let page = Page::read("docs/security.md");
    let mut count = 0;
    let sections =
        [("## Modules", "module.limits"), ("## Clients", "http"), ("## Clients", "live")];
    for (heading, section) in sections {
        for row in page.tables(heading) {
            let [_, keys, value, _] = &row[..] else { continue };
            // Such a row has settings of other sections.
            if keys.contains('[') {
                continue;
            }
            let keys: Vec<_> = keys.split('`').skip(1).step_by(2).collect();
            let values: Vec<_> = value.split(", ").collect();
            for (key, value) in keys.into_iter().zip(values) {
                let Some(default) = default(section, key) else { continue };
                assert_eq!(plain(value), plain(default), "{heading}: {key}");
                count += 1;
            }
        }
    }
    assert!(count >= 28, "{count} defaults were found");
}
