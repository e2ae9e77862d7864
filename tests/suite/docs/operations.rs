//! Does docs/operations.md have the options, commands and requests of the command?

use std::fmt::Write;

use relayer_rest_host::control::metrics::{Family, FamilyKind, families};
use relayer_rest_host::registry::ExpectedChanges;
use relayer_rest_tests::program::Program;
use serde_json::Value;

use super::page::{Page, code};
use super::reader::Reader;

/// An item of a help text, and its description.
struct Item {
    name: String,
    description: String,
}

async fn help(args: &[&str]) -> String {
    // Descriptions are not wrapped.
    let program = Program::new(args).args(["-h"]).env("COLUMNS", "10000");
    let ended = program.run().await;
    assert_eq!(ended.status, Some(0), "{args:?}: {}", ended.stderr);
    ended.stdout
}

/// Returns the items of a part of a help text.
fn items(help: &str, part: &str) -> Vec<Item> {
    let (_, rest) = help.split_once(&format!("\n{part}:\n")).unwrap();
    let lines = rest.lines().take_while(|line| !line.is_empty());
    lines
        .map(|line| {
            let (name, description) = line.trim().split_once("  ").unwrap();
            Item { name: name.to_owned(), description: description.trim().to_owned() }
        })
        .collect()
}

#[tokio::test]
async fn the_options_of_serve_match_its_help() {
    let help = help(&["serve"]).await;
    let mut table = "| option | meaning |\n|---|---|\n".to_owned();
    for Item { name, description } in items(&help, "Options") {
        if name.starts_with("--") {
            let name = name.replace(['<', '>'], "");
            writeln!(table, "| `{name}` | {description} |").unwrap();
        }
    }
    Page::read("docs/operations.md").check_generated("options", &table);
}

#[test]
fn the_metrics_of_the_host_are_listed() {
    let mut table = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
    for Family { name, kind, labels, help } in families() {
        let total = if *kind == FamilyKind::Counter { "_total" } else { "" };
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let kind = format!("{kind:?}").to_lowercase();
        writeln!(table, "| `{name}{total}{labels}` | {kind} | {help} |").unwrap();
    }
    Page::read("docs/operations.md").check_generated("host metrics", &table);
}

#[tokio::test]
async fn the_commands_match_the_help() {
    let mut table = "| command | effect |\n|---|---|\n".to_owned();
    let mut commands = Vec::new();
    for item in items(&help(&[]).await, "Commands") {
        match item.name.as_str() {
            "help" => {}
            "config" => {
                let inner = items(&help(&["config"]).await, "Commands").into_iter();
                let inner = inner.filter(|item| item.name != "help");
                commands.extend(
                    inner.map(|item| Item { name: format!("config {}", item.name), ..item }),
                );
            }
            _ => commands.push(item),
        }
    }
    for Item { name, description } in commands {
        let help = help(&name.split(' ').collect::<Vec<_>>()).await;
        let usage = help.lines().find(|line| line.starts_with("Usage: ")).unwrap();
        let (_, arguments) = usage.split_once(&name).unwrap();
        let arguments = arguments.replace(['<', '>'], "");
        writeln!(table, "| `relayer-rest {name}{arguments}` | {description} |").unwrap();
    }
    Page::read("docs/operations.md").check_generated("commands", &table);
}

/// The command line of each example is valid, for all pages.
#[tokio::test]
async fn examples_have_valid_options() {
    let mut examples = 0;
    for page in Page::all() {
        let blocks = [page.blocks("sh"), page.blocks("console")].concat();
        let lines = blocks.iter().flat_map(|block| block.lines());
        for line in lines {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let Some(line) = line.strip_prefix("relayer-rest ") else { continue };
            let end = line.find([';', '&', '>', '#', '|']).unwrap_or(line.len());
            help(&line[..end].split_whitespace().collect::<Vec<_>>()).await;
            examples += 1;
        }
    }
    assert!(examples > 20, "{examples} examples were found");
}

#[test]
fn the_example_of_expected_changes_is_valid() {
    let page = Page::read("docs/operations.md");
    let example = page.block("toml", "[[change]]");
    assert_eq!(example.parse::<ExpectedChanges>().unwrap().len(), 2);
}

#[test]
fn the_requests_of_the_control_socket_exist() {
    let page = Page::read("docs/operations.md");
    let mut reader = Reader::new();
    reader.run("relayer-rest --listen 127.0.0.1:0 &");
    let socket = "curl --unix-socket \"$RELAYER_REST_CONTROL\"";
    let example = page.block("sh", "curl --unix-socket");
    let status: Value = serde_json::from_str(&reader.run(example.trim_end())).unwrap();
    assert_eq!(status["mounts"][0]["mount"], "/");

    let known = reader.run(&format!("{socket} http://localhost/unknown"));
    let known: Value = serde_json::from_str(&known).unwrap();
    let known = known["error"].as_str().unwrap();
    // Of those of the admin listener, the last row is for these.
    let mut rows = page.table("## Admin listener");
    assert_eq!(rows.pop().unwrap()[0], "those of the control socket");
    rows.extend(page.table("## Control socket"));
    for row in &rows {
        let request = code(&row[0]).split('?').next().unwrap();
        assert!(known.contains(request), "{request}: {known}");
    }
    let listed =
        ["GET /", "PUT /", "POST /", "DELETE /"].map(|method| known.matches(method).count());
    assert_eq!(rows.len(), listed.iter().sum::<usize>(), "{known}");
}
