//! The parts of a Markdown page.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use relayer_rest_tests::cargo::root;

/// Held while a page is updated.
static UPDATE: Mutex<()> = Mutex::new(());

/// A Markdown page of the repository.
pub(super) struct Page {
    /// The path, relative to the repository.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Page {
    pub(super) fn read(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let text = fs::read_to_string(root().join(&path)).unwrap();
        Self { path, text }
    }

    /// Returns all pages: those of the repository's folder, and of `docs/`.
    pub(super) fn all() -> Vec<Self> {
        let mut pages = Vec::new();
        for folder in ["", "docs", "docs/decisions"] {
            for entry in fs::read_dir(root().join(folder)).unwrap() {
                let path = Path::new(folder).join(entry.unwrap().file_name());
                if path.extension().is_some_and(|extension| extension == "md") {
                    pages.push(Self::read(path));
                }
            }
        }
        pages
    }

    /// Returns the code blocks in a language.
    pub(super) fn blocks(&self, language: &str) -> Vec<&str> {
        let start = format!("```{language}\n");
        self.text.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
    }

    /// Returns the first code block in a language with this text.
    pub(super) fn block(&self, language: &str, part: &str) -> &str {
        self.blocks(language).into_iter().find(|block| block.contains(part)).unwrap()
    }

    /// Returns the text without code blocks.
    pub(super) fn prose(&self) -> String {
        self.text.split("```").step_by(2).collect()
    }

    /// Returns the rows of the first table below a heading, without its first row.
    pub(super) fn table(&self, heading: &str) -> Vec<Vec<String>> {
        let text = format!("\n{}", self.text);
        let (_, rest) = text.split_once(&format!("\n{heading}\n")).unwrap();
        let lines = rest.lines().skip_while(|line| !line.starts_with('|'));
        lines.take_while(|line| line.starts_with('|')).skip(2).map(cells).collect()
    }

    /// Returns the rows of all tables below a heading, without their first rows.
    pub(super) fn tables(&self, heading: &str) -> Vec<Vec<String>> {
        let text = format!("\n{}", self.text);
        let (_, rest) = text.split_once(&format!("\n{heading}\n")).unwrap();
        let section = rest.split("\n## ").next().unwrap();
        let tables = section.split("\n|---").skip(1);
        let rows = |table: &str| {
            let lines = table.lines().skip(1).take_while(|line| line.starts_with('|'));
            lines.map(cells).collect::<Vec<_>>()
        };
        tables.flat_map(rows).collect()
    }

    /// Checks that a generated part is up to date, or updates it.
    pub(super) fn check_generated(&self, name: &str, expected: &str) {
        let start = format!("<!-- generated: {name} -->\n");
        let (_, rest) = self.text.split_once(&start).unwrap();
        let (part, _) = rest.split_once("<!-- end -->").unwrap();
        if part == expected {
            return;
        }
        let is_update = std::env::var_os("UPDATE_DOCS").is_some();
        assert!(
            is_update,
            "{}: {name} is not up to date; run `UPDATE_DOCS=1 cargo test --workspace --test suite -- docs::`",
            self.path.display()
        );
        let _update = UPDATE.lock();
        let file = root().join(&self.path);
        let text = fs::read_to_string(&file).unwrap();
        let text = text.replace(&format!("{start}{part}"), &format!("{start}{expected}"));
        // Other tests read the file meanwhile.
        let new = file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, file).unwrap();
    }
}

/// Returns the cells of a row.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim_matches('|').replace("\\|", "\0");
    row.split('|').map(|cell| cell.replace('\0', "|").trim().to_owned()).collect()
}

/// Returns the text of a cell that is code.
pub(super) fn code(cell: &str) -> &str {
    cell.trim_matches('`')
}
