//! Is the progress of long steps visible?

use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::terminal::Terminal;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Returns a file whose compilation takes longer than any test waits.
fn slow(files: &Folder) -> String {
    files.write("slow.wasm", component::hard_to_compile(64_000))
}

/// Settings that let it take this long.
const SETTINGS: &str = "[swap]\ntime = '1h'\nmemory = '64GiB'\nsize = '1GiB'\n";

/// Waits until the program logs a line with this text, and kills it.
async fn check_logged(program: &Program, text: &str) {
    let mut child = program.spawn().child;
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("the step takes longer");
        if line.contains(text) {
            assert!(line.contains("slow.wasm") && line.contains("elapsed="), "{line}");
            break;
        }
    }
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_terminal_shows_a_bar_with_the_step() {
    let files = Folder::new();
    let settings = files.write("c.toml", SETTINGS);
    let mut check = Terminal::start(&Program::new(["check", "--config", &settings, &slow(&files)]));
    check.shows("compiling").await;
    check.shows("0/3").await;
    check.child.kill().await.unwrap();
}

#[tokio::test]
async fn the_bar_is_replaced_by_the_result() {
    let mut config = Terminal::start(&Program::new(["config", "check", "/dev/null"]));
    config.child.wait().await.unwrap();
    config.shows("ok      /").await;
    // The line of the bar is cleared before.
    let screen = config.screen();
    let end = screen.rfind("ok      /").unwrap();
    assert!(screen[..end].ends_with("\u{1b}[2K") || !screen.contains("0/1"), "{screen:?}");
}

#[tokio::test]
async fn the_log_names_a_long_step_elsewhere() {
    let files = Folder::new();
    let settings = files.write("c.toml", SETTINGS);
    let program = Program::new(["check", "--config", &settings, &slow(&files)]);
    check_logged(&program, "in progress").await;
}

#[tokio::test]
async fn the_log_of_a_server_names_a_module_that_it_still_compiles() {
    let files = Folder::new();
    let module = slow(&files);
    let settings = files
        .write("c.toml", format!("[[extension]]\nname = 'slow'\nmodule = '{module}'\n{SETTINGS}"));
    let program = Program::server().args(["--config", &settings]);
    check_logged(&program, "still compiling a module").await;
}
