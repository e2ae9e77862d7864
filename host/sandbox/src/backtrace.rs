//! Describes the location of a trap, without the frames of Rust's standard library.

use std::borrow::Cow;

use relayer_rest_common::text::{escape_control, truncate_at};
use rustc_demangle::try_demangle;
use wasmtime::{FrameInfo, WasmBacktrace};

use super::source_map::SourceMap;

/// The maximum number of functions in a message: the one that trapped and some of its
/// callers.
const MAX_FUNCTIONS: usize = 6;

/// The maximum length of a name in a message, in characters.
const MAX_NAME: usize = 80;

/// The maximum length of a name that is demangled, in bytes.
const MAX_MANGLED: usize = 1 << 10;

/// The crates of the standard library, and its entry points.
const STD: [&str; 8] =
    ["alloc::", "core::", "std::", "<alloc::", "<core::", "<std::", "rust_", "__rust"];

/// Returns the functions of a backtrace with their source locations, such as `in
/// count (src/lib.rs:25), called by handle (src/lib.rs:12)`, or `None` if
/// there are none. Functions without a name are only counted, except for the first one if no
/// function has a name.
pub(super) fn describe(backtrace: &WasmBacktrace, sources: &SourceMap) -> Option<String> {
    let functions: Vec<_> =
        backtrace.frames().iter().flat_map(|frame| functions(frame, sources)).collect();
    let own = functions.iter().filter(|function| !function.is_std);
    let named = own.clone().filter_map(|function| function.name.clone());
    let mut texts: Vec<_> = named.take(MAX_FUNCTIONS).collect();
    let mut nameless = own.filter(|function| function.name.is_none()).count();
    if texts.is_empty() {
        let first = functions.first()?;
        nameless -= usize::from(first.name.is_none());
        let number = || format!("function {}", first.number);
        texts.push(first.name.clone().unwrap_or_else(number));
    }
    let omitted = match nameless {
        0 => String::new(),
        1 => ", and 1 function without a name".to_owned(),
        count => format!(", and {count} functions without names"),
    };
    Some(format!("in {}{omitted}", texts.join(", called by ")))
}

/// A function in a backtrace.
struct Function {
    /// Its name, with its source location if that is known.
    name: Option<String>,
    /// Its number in the module.
    number: u32,
    is_std: bool,
}

/// Returns the function of a frame, after the functions that were inlined into it at this place.
fn functions(frame: &FrameInfo, sources: &SourceMap) -> Vec<Function> {
    let inlined = frame.module_offset().map(|offset| sources.find(offset)).unwrap_or_default();
    let number = frame.func_index();
    let mut functions: Vec<_> = inlined
        .into_iter()
        .map(|position| Function {
            name: Some(format!(
                "{} ({}:{})",
                name(position.function.unwrap_or("?")),
                escape_control(&end_of_path(position.file)),
                position.line
            )),
            number,
            is_std: position.is_std,
        })
        .collect();
    if functions.is_empty() {
        let name = frame.func_name().map(name);
        let is_std = name.as_deref().is_some_and(is_std);
        functions.push(Function { name, number, is_std });
    }
    functions
}

/// Returns whether a function is one of Rust's own.
fn is_std(name: &str) -> bool {
    STD.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns a function's name in the source.
fn name(mangled: &str) -> String {
    let demangled = (mangled.len() <= MAX_MANGLED).then(|| try_demangle(mangled).ok()).flatten();
    let name = demangled.map(|name| format!("{name:#}"));
    escape_control(&truncate_at(name.as_deref().unwrap_or(mangled), MAX_NAME))
}

/// Returns a path without the folders at its start if it is long.
fn end_of_path(path: &str) -> Cow<'_, str> {
    match path.char_indices().rev().nth(MAX_NAME - 1) {
        Some((start, _)) if start > 0 => Cow::Owned(format!("…{}", &path[start..])),
        _ => Cow::Borrowed(path),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME, end_of_path, is_std, name};

    #[test]
    fn names_are_demangled() {
        for (mangled, expected, of_rust) in [
            ("_ZN7my_tool5count17h0123456789abcdefE", "my_tool::count", false),
            ("_ZN4core9panicking5panic17h0123456789abcdefE", "core::panicking::panic", true),
            ("_RNvC7my_tool5count", "my_tool::count", false),
            ("__rust_alloc", "__rust_alloc", true),
            ("handle", "handle", false),
        ] {
            let name = name(mangled);
            assert_eq!((&*name, is_std(&name)), (expected, of_rust));
        }
    }

    #[test]
    fn a_long_path_keeps_its_file() {
        let file = "/my-tool/src/lib.rs";
        assert_eq!(end_of_path(file), file);
        let folder = "ü".repeat(MAX_NAME - file.len());
        assert_eq!(end_of_path(&format!("{folder}{file}")), format!("{folder}{file}"));
        assert_eq!(end_of_path(&format!("/home/{folder}{file}")), format!("…{folder}{file}"));
    }
}
