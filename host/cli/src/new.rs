//! `relayer-rest new`: creates an author's first module.
//!
//! | file | job |
//! |---|---|
//! | `rust.rs`, `js.rs`, `python.rs` | the template of each language |
//! | `rust/`, `js/`, `python/` | the files of each template |
//! | `requests.http` | requests to the module, and their expected responses |
//! | `openapi.json` | the declaration of its routes |
//! | `world.wit` | the module's imports, for languages that need a world |

mod js;
mod python;
mod rust;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use relayer_rest_server::config::ExtensionName;

use super::{CommandOutcome, Failure, print};

#[derive(Args)]
pub(super) struct NewArgs {
    /// Folder to create, and name of the module: lowercase letters, digits and
    /// -, beginning with a letter
    folder: PathBuf,
    /// Language of the module
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
}

/// A language that modules can be written in.
#[derive(Clone, Copy, ValueEnum)]
enum Language {
    /// Rust: small and fast; requires cargo
    Rust,
    /// JavaScript: about 12 MB; requires node and npm
    Js,
    /// Python: about 18 MB; requires Python with venv
    Python,
}

/// The content of a module's folder.
struct Template {
    /// The path of its component, once that is built.
    module: String,
    /// Files in which `NAME` and `MODULE` are replaced by the module's name and the path
    /// of its component.
    files: &'static [(&'static str, &'static str)],
    /// Files that are copied unchanged.
    as_is: Vec<(String, String)>,
    /// The commands that test and build it.
    steps: &'static [&'static str],
}

const REQUESTS: &str = include_str!("../templates/requests.http");

/// Declares the routes of the module, which are those of all templates.
const DOCUMENT: &str = include_str!("../templates/openapi.json");

const WORLD: &str = include_str!("../templates/world.wit");

/// The files of the contract.
const WIT: [(&str, &str); 4] = [
    ("handler.wit", include_str!("../wit/handler.wit")),
    ("relayer.wit", include_str!("../wit/relayer.wit")),
    ("types.wit", include_str!("../wit/types.wit")),
    ("world.wit", include_str!("../wit/world.wit")),
];

/// A folder cannot be created.
#[derive(Debug, thiserror::Error)]
enum NewError {
    #[error(
        "{0:?} is not a valid module name; use 1 to 64 lowercase letters, digits and -, beginning with a letter, and no name that Rust or the settings reserve"
    )]
    Name(String),
    #[error("{}: already exists; choose another folder, or remove it", .0.display())]
    Exists(PathBuf),
    #[error("{}: cannot be written: {source}; choose a writable folder", path.display())]
    Write { path: PathBuf, source: io::Error },
}

pub(super) fn run(args: &NewArgs) -> Result<CommandOutcome, Failure> {
    let folder = &args.folder;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !is_name(&name) {
        return Err(NewError::Name(name).into());
    }
    if folder.symlink_metadata().is_ok() {
        return Err(NewError::Exists(folder.clone()).into());
    }
    let Template { module, files, as_is, steps } = args.lang.template(&name);
    for (file, text) in files {
        write(&folder.join(file), &text.replace("NAME", &name).replace("MODULE", &module))?;
    }
    for (file, text) in as_is {
        write(&folder.join(file), &text)?;
    }
    let folder = folder.display();
    let mut lines = vec![format!("created {folder}; next steps:"), format!("  cd {folder}")];
    lines.extend(steps.iter().map(|step| format!("  {step}")));
    let check = format!("relayer-rest check --mount /ext/{name} .");
    lines.push(format!("  {check}  # relayer-rest dev repeats these after each change"));
    print(&lines)?;
    Ok(CommandOutcome::Done)
}

impl Language {
    fn template(self, name: &str) -> Template {
        match self {
            Self::Rust => rust::template(name),
            Self::Js => js::template(name),
            Self::Python => python::template(name),
        }
    }
}

/// Returns files that are copied unchanged.
fn as_is(files: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
}

/// Returns the contract's files, in a folder.
fn wit(folder: &str) -> impl Iterator<Item = (String, String)> {
    as_is(&WIT).map(move |(file, text)| (format!("{folder}/{file}"), text))
}

/// Returns whether an extension and a package can have this name.
fn is_name(name: &str) -> bool {
    name.parse::<ExtensionName>().is_ok()
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !RESERVED.contains(&name)
}

/// Likely names that crates have already, or that are keywords of Rust.
const RESERVED: [&str; 18] = [
    "relayer-rest-sdk",
    "alloc",
    "async",
    "await",
    "const",
    "core",
    "crate",
    "dyn",
    "extern",
    "match",
    "mod",
    "proc-macro",
    "self",
    "static",
    "std",
    "super",
    "test",
    "type",
];

fn write(path: &Path, text: &str) -> Result<(), NewError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all);
    written
        .and_then(|()| fs::write(path, text))
        .map_err(|source| NewError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::{Language, WIT, is_name};
    use clap::ValueEnum;
    use std::fs;
    use std::path::{Path, PathBuf};

    #[test]
    fn a_name_is_valid_for_a_crate_and_an_extension() {
        for (name, is) in [
            ("a", true),
            ("a-1", true),
            ("", false),
            ("1a", false),
            ("A", false),
            ("a b", false),
            ("api", false),
            ("test", false),
        ] {
            assert_eq!(is_name(name), is, "{name}");
        }
    }

    #[test]
    fn the_template_contains_the_whole_contract() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("wit");
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(WIT.iter().any(|(file, _)| *file == name), "{name}");
        }
    }

    fn files_in(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files_in(&path, found) } else { found.push(path) }
        }
    }

    /// Each file of a language is in its template, and letters that occur by chance are
    /// not replaced.
    #[test]
    fn the_template_contains_all_files() {
        let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        for (language, folder) in Language::value_variants().iter().zip(["rust", "js", "python"]) {
            let template = language.template("my-tool");
            let mut files = Vec::new();
            files_in(&templates.join(folder), &mut files);
            for file in files {
                let text = fs::read_to_string(&file).unwrap();
                let is_given = template.files.iter().any(|(_, given)| *given == text)
                    || template.as_is.iter().any(|(_, given)| *given == text);
                assert!(is_given, "{}", file.display());
            }
            assert!(template.steps.len() == 2 && template.module.ends_with("tool.wasm"));
        }
        let js = Language::Js.template("my-tool");
        let lock = js.files.iter().find(|(file, _)| *file == "package-lock.json").unwrap().1;
        assert_eq!((lock.matches("NAME").count(), lock.matches("MODULE").count()), (2, 0));
        assert!(!lock.contains("resolved"), "no registry is named");
    }
}
