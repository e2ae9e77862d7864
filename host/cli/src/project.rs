//! The project of a module: its language, and the command that builds it, for `dev`, `check` and
//! `swap`.
//!
//! | file | job |
//! |---|---|
//! | `project/built.rs` | the component that was built for a server |

mod built;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

pub(super) use built::locate;

/// The target of modules in Rust.
pub(super) const TARGET: &str = "wasm32-unknown-unknown";

/// The command that builds a module in Rust for a server: an alias in the template.
pub(super) const CARGO_MODULE: &str = "cargo module";

/// The profile in which modules in Rust are built: fast to compile, with line numbers, and not
/// too slow. It is given on the command line, so that projects need not declare it.
const PROFILE: &str = "relayer-rest-dev";
const PROFILE_SETTINGS: [&str; 3] =
    ["inherits=\"dev\"", "opt-level=1", "debug=\"line-tables-only\""];

/// The sources of a module, and how they are built.
#[derive(Debug)]
pub(super) struct Project {
    pub(super) folder: PathBuf,
    pub(super) builder: Builder,
    /// The component that the build writes, if it is named.
    module: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Builder {
    Cargo,
    Npm,
    Python,
    /// A command for the shell.
    Command(String),
}

/// The component of a project is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectError {
    #[error(
        "{}: no Cargo.toml, package.json or build.py; name the folder of a module, or its build with --build COMMAND",
        .0.display()
    )]
    Language(PathBuf),
    #[error("{}: the build has written no *.wasm there; name its output with --module FILE", .0.display())]
    NoModule(PathBuf),
    #[error(
        "{}: more than one *.wasm; remove the others, or name the output of the build with --module FILE",
        .0.display()
    )]
    Modules(PathBuf),
    #[error(
        "{}: the package has no cdylib for {TARGET}; add crate-type = [\"cdylib\", \"rlib\"] to its [lib]",
        .0.display()
    )]
    NoCdylib(PathBuf),
}

impl Project {
    /// Finds the language of a folder, unless the command that builds it is given.
    pub(super) fn find(
        folder: &Path,
        build: Option<&str>,
        module: Option<&Path>,
    ) -> Result<Self, ProjectError> {
        let has = |file: &str| folder.join(file).is_file();
        let builder = match build {
            Some(command) => Builder::Command(command.to_owned()),
            None if has("Cargo.toml") => Builder::Cargo,
            None if has("package.json") => Builder::Npm,
            None if has("build.py") => Builder::Python,
            None => return Err(ProjectError::Language(folder.to_owned())),
        };
        let module = module.map(|module| folder.join(module));
        Ok(Self { folder: folder.to_owned(), builder, module })
    }

    /// Returns the command that builds the module. With cargo, it prints the names of its
    /// outputs as JSON.
    pub(super) fn command(&self) -> Command {
        let (program, args): (&str, Vec<String>) = match &self.builder {
            Builder::Cargo => ("cargo", cargo_args()),
            Builder::Npm if is_installed(&self.folder) => {
                // Without the script that installs the tools.
                ("npm", ["--silent", "--ignore-scripts", "run", "build"].map(Into::into).into())
            }
            Builder::Npm => ("npm", ["--silent", "run", "build"].map(Into::into).into()),
            Builder::Python => ("python3", vec!["build.py".into()]),
            Builder::Command(command) => ("/bin/sh", vec!["-c".into(), command.clone()]),
        };
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.folder);
        command
    }

    /// Returns whether the command prints its outputs as JSON.
    pub(super) fn has_json(&self) -> bool {
        self.builder == Builder::Cargo
    }

    /// Returns the component that a build has written. `outputs` has the lines of its JSON.
    pub(super) fn module<'a>(
        &self,
        outputs: impl DoubleEndedIterator<Item = &'a str>,
    ) -> Result<PathBuf, ProjectError> {
        match (&self.module, &self.builder) {
            (Some(module), _) => Ok(module.clone()),
            (None, Builder::Cargo) => {
                let manifest = fs::canonicalize(self.folder.join("Cargo.toml")).ok();
                outputs
                    .rev()
                    .find_map(|line| cdylib(line, manifest.as_deref()))
                    .ok_or_else(|| ProjectError::NoCdylib(self.folder.clone()))
            }
            _ => only_module(&self.folder),
        }
    }

    /// Returns the command that builds the module for a server, if it is another one.
    pub(super) fn release_command(&self) -> Option<&'static str> {
        (self.builder == Builder::Cargo).then_some(CARGO_MODULE)
    }

    /// Returns the file that the settings of a server name for a component: with cargo, the
    /// output of `cargo module`.
    pub(super) fn released(&self, module: &Path) -> PathBuf {
        let folder = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let module = fs::canonicalize(module).unwrap_or_else(|_| module.to_owned());
        let module = module.strip_prefix(&folder).unwrap_or(&module);
        let part = |part: &OsStr| if part == PROFILE { "release".into() } else { part.to_owned() };
        module.iter().map(part).collect()
    }
}

fn cargo_args() -> Vec<String> {
    let mut args: Vec<String> =
        ["build", "--target", TARGET, "--profile", PROFILE].map(Into::into).into();
    args.push("--message-format=json-render-diagnostics".into());
    for setting in PROFILE_SETTINGS {
        args.extend(["--config".into(), format!("profile.{PROFILE}.{setting}")]);
    }
    args
}

/// Returns whether npm has installed the tools since their versions were changed last.
fn is_installed(folder: &Path) -> bool {
    let modified = |file: &str| -> Option<SystemTime> {
        folder.join(file).metadata().and_then(|metadata| metadata.modified()).ok()
    };
    let Some(installed) = modified("node_modules/.package-lock.json") else { return false };
    let files = ["package.json", "package-lock.json"];
    files.into_iter().filter_map(modified).all(|changed| changed <= installed)
}

/// Returns the component of a line of cargo's output, if it is the one of this package.
fn cdylib(line: &str, manifest: Option<&Path>) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_cdylib = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "cdylib");
    let is_own = manifest.is_none() || message["manifest_path"].as_str().map(Path::new) == manifest;
    let files = message["filenames"].as_array().filter(|_| is_cdylib && is_own)?;
    let mut files = files.iter().filter_map(|file| Some(PathBuf::from(file.as_str()?)));
    files.find(|file| is_module(file))
}

/// Returns the only component in a folder.
pub(super) fn only_module(folder: &Path) -> Result<PathBuf, ProjectError> {
    let none = || ProjectError::NoModule(folder.to_owned());
    let entries = fs::read_dir(folder).map_err(|_| none())?;
    let modules = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| is_module(p));
    let mut modules: Vec<_> = modules.collect();
    if modules.len() > 1 {
        // The build of a new module writes one with its name. Others may be copies.
        let name = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        modules.retain(|module| module.file_stem() == name.file_name());
        return modules.pop().ok_or_else(|| ProjectError::Modules(folder.to_owned()));
    }
    modules.pop().ok_or_else(none)
}

fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
}

#[cfg(test)]
mod tests {
    use super::{PROFILE, Project, ProjectError, only_module};
    use std::fs;
    use std::iter::empty;
    use std::path::{Path, PathBuf};

    fn find(folder: &Path) -> Project {
        Project::find(folder, None, None).unwrap()
    }

    #[test]
    fn the_module_of_a_folder_is_the_only_one_or_has_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("my-tool");
        fs::create_dir(&folder).unwrap();
        let found = || only_module(&folder).map(|file| file.file_name().unwrap().to_owned());
        assert!(matches!(found(), Err(ProjectError::NoModule(_))));
        fs::write(folder.join("before.wasm"), "").unwrap();
        assert_eq!(found().unwrap(), "before.wasm");
        fs::write(folder.join("after.wasm"), "").unwrap();
        assert!(matches!(found(), Err(ProjectError::Modules(_))));
        fs::write(folder.join("my-tool.wasm"), "").unwrap();
        assert_eq!(found().unwrap(), "my-tool.wasm");
    }

    /// Returns the words of the command that builds a project.
    fn words(project: &Project) -> String {
        let command = project.command();
        let words = [command.get_program()].into_iter().chain(command.get_args());
        words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_language_is_that_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let error = Project::find(folder, None, None).unwrap_err();
        assert!(matches!(error, ProjectError::Language(_)), "{error}");
        for (file, command) in [
            ("build.py", "python3 build.py"),
            ("package.json", "npm --silent run build"),
            (
                "Cargo.toml",
                "cargo build --target wasm32-unknown-unknown --profile relayer-rest-dev",
            ),
        ] {
            fs::write(folder.join(file), "").unwrap();
            assert!(words(&find(folder)).starts_with(command), "{file}");
        }
        let other = Project::find(folder, Some("make"), None).unwrap();
        assert_eq!(words(&other), "/bin/sh -c make");
    }

    #[test]
    fn tools_of_npm_are_installed_only_after_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("package.json"), "").unwrap();
        let lock = folder.join("node_modules/.package-lock.json");
        fs::create_dir(lock.parent().unwrap()).unwrap();
        fs::write(&lock, "").unwrap();
        assert_eq!(words(&find(folder)), "npm --silent --ignore-scripts run build");
        let installed = fs::File::open(&lock).unwrap();
        installed.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(words(&find(folder)), "npm --silent run build");
    }

    #[test]
    fn the_component_of_cargo_is_the_cdylib_of_the_package() {
        let folder = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(folder.path()).unwrap();
        fs::write(folder.join("Cargo.toml"), "").unwrap();
        let project = find(&folder);
        let module = folder.join(format!("target/wasm32-unknown-unknown/{PROFILE}/a.wasm"));
        let line = |kind: &str, manifest: PathBuf, file: &Path| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": manifest,
                "target": {"kind": [kind]}, "filenames": [file],
            })
            .to_string()
        };
        let lines = [
            line("cdylib", folder.join("Cargo.toml"), &module),
            line("cdylib", folder.join("sdk/Cargo.toml"), &folder.join("b.wasm")),
            line("rlib", folder.join("Cargo.toml"), &folder.join("c.wasm")),
            "no JSON".to_owned(),
        ];
        let found = project.module(lines.iter().map(String::as_str)).unwrap();
        assert_eq!(found, module);
        let released = Path::new("target/wasm32-unknown-unknown/release/a.wasm");
        assert_eq!(project.released(&found), released);
        let error = project.module(empty()).unwrap_err();
        assert!(matches!(error, ProjectError::NoCdylib(_)), "{error}");
    }
}
