//! The interfaces of WASI that modules can import, if their mount has it.

/// The packages of which a module may import every interface that the host's WASI has.
const PACKAGES: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// The interfaces of `wasi:http` that a module may import.
const HTTP: [&str; 2] = ["wasi:http/types@", "wasi:http/outgoing-handler@"];

/// Returns whether the host has an interface of WASI, judging by its name.
pub(super) fn is_defined(import: &str) -> bool {
    let is_version = import.split_once('@').is_some_and(|(_, version)| version.starts_with("0.2."));
    let is_known = |package: &&str| import.starts_with(*package);
    is_version && PACKAGES.iter().chain(&HTTP).any(is_known)
}
