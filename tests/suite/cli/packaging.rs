//! Does the command print completions, manual pages and its version, for packages?

use std::fs;
use std::process::Command;

use relayer_rest_host::module::{CONTRACT_PACKAGE, CONTRACT_VERSION, WASMTIME_VERSION};
use relayer_rest_tests::cargo::root;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;

#[tokio::test]
async fn bash_completes_commands_and_options() {
    let ended = Program::new(["completions", "bash"]).run().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let files = Folder::new();
    let script = files.write("completions", &ended.stdout);
    for (line, completion) in
        [("relayer-rest stat", "status"), ("relayer-rest serve --up", "--upstream")]
    {
        let words = line.split(' ').collect::<Vec<_>>();
        let last = words.len() - 1;
        let code = format!(
            ". {script}; COMP_WORDS=({line}); COMP_CWORD={last}; _relayer__rest relayer-rest {} {}; echo \"${{COMPREPLY[@]}}\"",
            words[last],
            words[last - 1]
        );
        let output = Command::new("bash").args(["-c", &code]).output().unwrap();
        let replies = String::from_utf8(output.stdout).unwrap();
        assert!(replies.split_whitespace().any(|reply| reply == completion), "{line}: {replies}");
    }
    for shell in ["elvish", "fish", "powershell", "zsh"] {
        let ended = Program::new(["completions", shell]).run().await;
        assert!(ended.stdout.contains("rollback"), "{shell}: {ended:?}");
    }
}

#[tokio::test]
async fn each_command_has_a_manual_page() {
    let files = Folder::new();
    let ended = Program::new(["man", &files.path("man")]).run().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let listed: Vec<_> = ended.stdout.lines().collect();
    for page in ["relayer-rest.1", "relayer-rest-serve.1", "relayer-rest-config-check.1"] {
        assert!(listed.contains(&&*files.path(&format!("man/{page}"))), "{page}: {listed:?}");
    }
    let serve = fs::read_to_string(files.join("man/relayer-rest-serve.1")).unwrap();
    assert!(serve.starts_with(".ie") && serve.contains("\\-\\-upstream"), "{serve}");
    // The first page is printed without a folder.
    let printed = Program::new(["man"]).run().await.stdout;
    assert!(printed.contains(".TH relayer-rest 1 "), "{printed}");

    let file = files.write("file", "");
    let refused = Program::new(["man", &file]).run().await;
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("choose a folder that you can write to"), "{}", refused.stderr);
}

#[tokio::test]
async fn the_version_names_the_commit_the_contract_and_wasmtime() {
    let version = Program::new(["--version"]).run().await.stdout;
    let [first, contract, wasmtime] = version.lines().collect::<Vec<_>>()[..] else {
        panic!("{version}");
    };
    let git = Command::new("git").args(["rev-parse", "--git-dir"]).current_dir(root()).output();
    let start = format!("relayer-rest {}", env!("CARGO_PKG_VERSION"));
    if git.is_ok_and(|output| output.status.success()) {
        let commit = first.strip_prefix(&format!("{start} (")).unwrap().strip_suffix(')').unwrap();
        let show = ["cat-file", "-e", commit];
        let known = Command::new("git").args(show).current_dir(root()).status().unwrap();
        assert!(known.success(), "{first}");
    } else {
        assert_eq!(first, start);
    }
    assert_eq!(contract, format!("contract {CONTRACT_PACKAGE}@{CONTRACT_VERSION}"));
    assert_eq!(wasmtime, format!("wasmtime {WASMTIME_VERSION}"));
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let package = format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"\n");
    assert!(lock.contains(&package), "{WASMTIME_VERSION}");
}
