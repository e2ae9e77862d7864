//! Assembles the page from the files in `page/`, and computes its content security
//! policy.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

/// The files of the page's script, concatenated in this order: each may use the
/// definitions of the files before it.
const SCRIPTS: [&str; 16] = [
    "dom.js",
    "model.js",
    "sort.js",
    "view.js",
    "layout.js",
    "graph.js",
    "list.js",
    "chosen.js",
    "table.js",
    "telemetry.js",
    "problems.js",
    "status.js",
    "requests.js",
    "stream.js",
    "poll.js",
    "main.js",
];

/// The placeholders in `index.html`.
const STYLE: &str = "/* style.css */";
const SCRIPT: &str = "/* *.js */";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=page");
    let folder = Path::new("page");
    let style = read(&folder.join("style.css"))?;
    let mut script = String::new();
    for name in SCRIPTS {
        script.push_str(&read(&folder.join(name))?);
    }
    let page = read(&folder.join("index.html"))?;
    let page = put(&page, STYLE, &style)?;
    let page = put(&page, SCRIPT, &script)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("page.html"), page)?;
    fs::write(out.join("policy.txt"), policy(&style, &script))?;
    Ok(())
}

/// Reads a file with CRLF replaced by LF, as browsers do before they hash the content.
fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.replace("\r\n", "\n"))
}

/// Replaces a placeholder, which must occur exactly once, with a text.
fn put(page: &str, place: &str, text: &str) -> Result<String, Box<dyn Error>> {
    if page.matches(place).count() != 1 {
        return Err(format!("index.html: {place} must occur exactly once").into());
    }
    if text.to_ascii_lowercase().contains("</s") || text.contains("<!--") {
        return Err(format!("the text for {place} would end its element early").into());
    }
    Ok(page.replace(place, text))
}

/// Returns the content security policy. The page may run its own script, use its own
/// style, show `data:` images and connect to its own origin, nothing else. Text never
/// becomes markup: the script creates no HTML from strings.
fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; \
         img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash(script),
        hash(style),
    )
}
