//! Do the links and file names in the pages lead somewhere?

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use relayer_rest_tests::cargo::root;

use super::page::Page;

/// Returns the anchor of a heading, as GitHub derives it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|character| if character == ' ' { '-' } else { character }).collect()
}

fn anchors(page: &Page) -> HashSet<String> {
    let prose = page.prose();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// Returns the targets of the links of a page.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).map(|rest| rest.split(')').next().unwrap())
}

#[test]
fn links_resolve() {
    let mut count = 0;
    for page in Page::all() {
        for link in links(&page.prose()) {
            if link.contains("://") {
                continue;
            }
            count += 1;
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = page.path.parent().unwrap().join(path);
            let target = if path.is_empty() { page.path.clone() } else { target };
            let place = page.path.display();
            assert!(root().join(&target).exists(), "{place}: {link} does not exist");
            if !fragment.is_empty() {
                let anchors = anchors(&Page::read(&target));
                assert!(anchors.contains(fragment), "{place}: {link} is not in {anchors:?}");
            }
        }
    }
    assert!(count > 40, "{count} links were found");
}

/// Adds the files below a folder, without those that git ignores.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if matches!(name.as_str(), ".git" | "target" | "found") {
            continue;
        }
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Returns whether a text is the name of a Rust file.
fn is_source(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|extension| extension == "rs") && !text.contains(' ')
}

/// A name of a Rust file can lack the folders before it.
#[test]
fn files_that_are_named_exist() {
    let mut known = Vec::new();
    files(&root(), &mut known);
    // This is in the first extension of a reader.
    known.push(PathBuf::from("src/lib.rs"));
    let mut count = 0;
    for page in Page::all() {
        let prose = page.prose();
        let names = prose.split('`').skip(1).step_by(2);
        for name in names.filter(|name| is_source(name)) {
            let exists = known.iter().any(|file| file.ends_with(name));
            assert!(exists, "{}: {name} does not exist", page.path.display());
            count += 1;
        }
    }
    assert!(count > 20, "{count} names were found");
}

#[test]
fn decisions_are_numbered_and_have_their_sections() {
    let mut pages = Page::all();
    pages.retain(|page| page.path.starts_with("docs/decisions"));
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(pages.len() >= 8);
    for (number, page) in (1..).zip(pages) {
        let place = page.path.display();
        assert!(page.text.starts_with(&format!("# {number:03}: ")), "{place}");
        let name = page.path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("{number:03}-")), "{place}");
        for section in ["Context", "Decision", "Measured", "Consequences"] {
            assert!(page.text.contains(&format!("\n## {section}\n")), "{place}: {section}");
        }
    }
}

#[test]
fn anchors_match_those_of_github() {
    for (heading, expected) in [
        ("`[module.limits]`", "modulelimits"),
        ("`[[extension]]`", "extension"),
        ("Headers with effects beyond the mount", "headers-with-effects-beyond-the-mount"),
        ("A miss, to `/chains`: 2.3", "a-miss-to-chains-23"),
    ] {
        assert_eq!(anchor(heading), expected);
    }
}
