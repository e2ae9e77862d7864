//! A reader of the docs: runs the commands, and compares their output.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;

use super::author::prepare;

/// The address in the docs.
const ADDRESS: &str = "127.0.0.1:8000";

/// A reader of a page, with a terminal.
pub(super) struct Reader {
    home: Folder,
    folder: PathBuf,
    /// The replacement for [`ADDRESS`].
    address: String,
    server: Option<(std::process::Child, BufReader<ChildStdout>)>,
}

impl Reader {
    pub(super) fn new() -> Self {
        let home = Folder::new();
        let command = home.join("relayer-rest");
        std::os::unix::fs::symlink(Program::path(), command).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self { folder: home.as_path().to_owned(), home, address, server: None }
    }

    /// Follows a page: writes its files, and runs its commands, whose output follows them.
    /// A file has its name alone on the line before it. Returns the numbers of commands and
    /// of files.
    pub(super) fn follow(&mut self, page: &str) -> (usize, usize) {
        let mut commands = 0;
        let mut files = 0;
        let parts: Vec<_> = page.split("```").collect();
        for [prose, block] in parts.as_chunks().0 {
            let (language, block) = block.split_once('\n').unwrap();
            if language == "console" {
                commands += self.run_all(block);
            } else if let Some(name) = file_name(prose) {
                self.write(name, block);
                files += 1;
            }
        }
        (commands, files)
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text.replace(ADDRESS, &self.address)).unwrap();
    }

    /// Runs the commands of a block, which begin with `$`, and compares their output.
    /// Returns the number of commands.
    pub(super) fn run_all(&mut self, block: &str) -> usize {
        let block = format!("\n{}", block.replace(ADDRESS, &self.address));
        let commands = block.split("\n$ ").skip(1);
        // Some output has no line end.
        let ended = |text: &str| {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{end}")
        };
        commands
            .map(|command| {
                let (line, shown) = command.split_once('\n').unwrap_or((command, ""));
                let printed = ended(&self.run(line));
                let shown = ended(shown);
                assert!(is_as_shown(&printed, &shown), "$ {line}\n{printed}\nis not\n{shown}");
            })
            .count()
    }

    /// Runs a line in a shell, and returns its output without the log.
    pub(super) fn run(&mut self, line: &str) -> String {
        if let Some(folder) = line.strip_prefix("cd ") {
            self.folder = self.folder.join(folder);
            prepare(&self.folder);
            return String::new();
        }
        let line = &*line.replace(ADDRESS, &self.address);
        let path = std::env::var("PATH").unwrap();
        let is_server = line.ends_with(" &");
        // In a terminal, curl shows no progress.
        let script = match line.strip_suffix(" &") {
            Some(server) => format!("exec {server} 2>&1"),
            None => format!("exec 2>&1; {}", line.replace("curl ", "curl --silent ")),
        };
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", self.home.as_path().display()))
            .env("RELAYER_REST_CONTROL", self.home.join("control"))
            .env("RELAYER_REST_CODE_CACHE", self.home.join("cache"))
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TERM_QUIET", if line == "cargo module" { "true" } else { "false" })
            .env("RUST_LOG", "off")
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .stdout(Stdio::piped());
        if is_server {
            let mut server = shell.spawn().unwrap();
            let mut output = BufReader::new(server.stdout.take().unwrap());
            let mut first = String::new();
            output.read_line(&mut first).unwrap();
            self.server = Some((server, output));
            return first;
        }
        let output = shell.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        // A rejection is shown in the document.
        assert_eq!(
            output.status.success(),
            !printed.contains("\nrejected: "),
            "$ {line}\n{printed}"
        );
        printed
    }

    /// Returns the next lines of the server's output, up to one with this text.
    pub(super) fn printed_by_server(&mut self, last: &str) -> String {
        let (_, output) = self.server.as_mut().unwrap();
        let mut printed = String::new();
        loop {
            let start = printed.len();
            assert_ne!(output.read_line(&mut printed).unwrap(), 0, "no {last}: {printed}");
            if printed[start..].contains(last) {
                return printed.replace(&self.address, ADDRESS);
            }
        }
    }

    /// Ends the server.
    pub(super) fn end_server(&mut self) {
        if let Some((mut server, _)) = self.server.take() {
            server.kill().ok();
            server.wait().ok();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.end_server();
    }
}

/// Returns the name of a file whose content follows a text.
fn file_name(prose: &str) -> Option<&str> {
    let line = prose.trim_end().lines().last()?;
    line.strip_prefix('`')?.strip_suffix('`')
}

/// Returns whether a text matches the document, in which `…` stands for any text.
pub(super) fn is_as_shown(text: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        // The line end after `…` belongs to the omitted text.
        let part = part.trim_start_matches('\n');
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last.trim_start_matches('\n'))
}

#[test]
fn output_is_compared_with_the_page() {
    for (text, shown, expected) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\nb\n", "a\n", false),
        ("a\nb\n", "…\n", true),
        ("", "…\n", true),
        ("a\nb\nc\n", "…\nb\n…\n", true),
        ("b\n", "…\nb\n…\n", true),
        ("a\nc\n", "…\nb\n…\n", false),
        ("a b c\n", "a … c\n", true),
        ("a b d\n", "a … c\n", false),
    ] {
        assert_eq!(is_as_shown(text, shown), expected, "{text:?} {shown:?}");
    }
}
