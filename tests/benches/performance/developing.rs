//! The time of authors, with `dev`: from `new` to the response of a module with a change, and from the
//! save of a later change to its response.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use relayer_rest_tests::cargo::root;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::measure::quantile;
use relayer_rest_tests::program::Program;
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::in_process::ratio;
use crate::report::{Report, Target};

/// The number of later changes, of which the median counts.
const CHANGES: usize = 5;

/// The text of the template's response, and those of the changes.
const TEXTS: [&str; 3] = [" chains: ", " of them: ", " in all: "];

/// A language of modules.
struct Language {
    name: &'static str,
    /// The program that its tools need.
    needs: &'static str,
    /// The file that is changed.
    source: &'static str,
    /// The targets of the two times, in seconds.
    new: u64,
    save: u64,
}

const LANGUAGES: [Language; 3] = [
    Language { name: "rust", needs: "cargo", source: "src/lib.rs", new: 60, save: 2 },
    Language { name: "js", needs: "npm", source: "src/handle.js", new: 60, save: 5 },
    Language { name: "python", needs: "python3", source: "handle.py", new: 30, save: 3 },
];

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    for language in &LANGUAGES {
        if Command::new(language.needs).arg("--version").output().is_err() {
            println!("without {}, modules in {} are not measured", language.needs, language.name);
            continue;
        }
        let (new, mut saves) = runtime.block_on(author(language));
        let mut add = |what: &str, time: Duration, target: u64| {
            let what = format!("{}: {what}", language.name);
            let target = Duration::from_secs(target);
            let figures = (format!("{time:.1?}"), format!("{target:.0?}"));
            report.add(what, figures, ratio(time, target), Target::AtMost(1.0));
        };
        add("`new` to the response of a change", new, language.new);
        add("save to the response", quantile(&mut saves, 0.5), language.save);
    }
}

/// Returns the time from `new` to the response of the first change, and the times from the saves of
/// later ones.
async fn author(language: &Language) -> (Duration, Vec<Duration>) {
    let folder = Folder::new();
    let mine = folder.join("my-tool");
    let path = mine.to_str().unwrap();
    let start = Instant::now();
    let ended = Program::new(["new", "--lang", language.name, path]).run().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    if language.needs == "cargo" {
        // The versions of crates that are downloaded already.
        fs::copy(root().join("Cargo.lock"), mine.join("Cargo.lock")).unwrap();
    }
    let serving = Program::new(["dev", path, "--listen", "127.0.0.1:0"]).start().await;
    let mut client = Client::http1(serving.address()).await;
    shown(&mut client, TEXTS[0]).await;
    let source = mine.join(language.source);
    let template = fs::read_to_string(&source).unwrap();
    let save = |text: &str| fs::write(&source, template.replace(TEXTS[0], text)).unwrap();
    save(TEXTS[1]);
    shown(&mut client, TEXTS[1]).await;
    let new = start.elapsed();
    let mut saves = Vec::new();
    for text in TEXTS.into_iter().cycle().skip(2).take(CHANGES) {
        let start = Instant::now();
        save(text);
        shown(&mut client, text).await;
        saves.push(start.elapsed());
    }
    serving.stop().await;
    (new, saves)
}

/// Waits until the module responds with this text. Most of the requests cause no run, which would take
/// the processor from the build.
async fn shown(client: &mut Client, text: &str) {
    let mut tag = "\"none\"".to_owned();
    loop {
        let headers = [("if-none-match", &*tag), ("prefer", "wait=60")];
        let response = client.request_with("GET", "/ext/my-tool/", &headers).await;
        match response.headers.get("etag") {
            _ if response.text().contains(text) => return,
            Some(new) => new.to_str().unwrap().clone_into(&mut tag),
            None => sleep(Duration::from_millis(100)).await,
        }
    }
}
