//! Does schemathesis find no response that differs from the OpenAPI document?

use std::path::{Path, PathBuf};
use std::process::Command;

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;

const PACKAGE: &str = "schemathesis==4.32.5";

/// The minimum number of requests for each dialect.
const CASES: u32 = 10_000;

/// Installs schemathesis, and returns its command.
fn install(folder: &Folder) -> PathBuf {
    let python = folder.join("python");
    run(Command::new("python3").args(["-m", "venv"]).arg(&python));
    let options = ["install", "--quiet", "--disable-pip-version-check", PACKAGE];
    run(Command::new(python.join("bin/pip")).args(options));
    python.join("bin/schemathesis")
}

/// Runs a command, and returns its output.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

/// Sends requests of all kinds to the declared routes, and returns their number. `settings`
/// is a file of schemathesis.
async fn requests(schemathesis: &Path, address: &str, settings: &str, examples: u32) -> u32 {
    let folder = Folder::new();
    folder.write("schemathesis.toml", settings);
    let mut command = Command::new(schemathesis);
    command
        .args(["run", &format!("{address}/openapi.json"), "--no-color", "--checks", "all"])
        .args(["--workers", "2", "--max-examples", &examples.to_string()])
        .current_dir(folder.as_path());
    let text = tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap();
    // Such as `1040 generated, 1040 passed`.
    let sum = text.lines().find_map(|line| line.split_once(" generated, ")).unwrap().0;
    sum.trim().parse().unwrap()
}

async fn check(schemathesis: &Path, args: &[&str], examples: u32) {
    let serving = Program::server().args(args).start().await;
    // A run ends before its maximum when the generator of a parameter, by chance, repeats itself.
    let mut cases = 0;
    while cases < CASES {
        let sent = requests(schemathesis, serving.url(), "", examples).await;
        assert!(sent > 0, "{args:?}: no request after {cases}");
        cases += sent;
    }
    // Few of those are for a chain that exists.
    let known = "[parameters]\n\"path.id\" = \"ibc-0\"\n";
    requests(schemathesis, serving.url(), known, 50).await;
}

#[tokio::test]
#[ignore = "needs python3-venv, and installs schemathesis"]
async fn schemathesis_finds_no_failures() {
    let folder = Folder::new();
    let schemathesis = install(&folder);
    // Only the path of a chain and the query of a command have as many different requests: the
    // other ones have no parameters, or so few values that they may all be used up earlier.
    tokio::join!(
        check(&schemathesis, &["--dialect", "0.7"], CASES),
        check(&schemathesis, &["--dialect", "1.13"], CASES / 2),
    );
}
