//! Namespaces of the system, which take the rights of root: one of the network, with a link to the
//! one of the tests, which they can cut; and ones of mounts.

use std::net::Ipv4Addr;
use std::process::{Command, id};

/// Starts a program in a namespace of mounts.
pub const OWN_MOUNTS: &[&str] = &["unshare", "--mount"];

/// A network namespace with an address and a loopback interface, until it is dropped.
pub struct Namespace {
    name: String,
    link: String,
    outside: Ipv4Addr,
}

impl Namespace {
    /// Creates a namespace.
    ///
    /// # Panics
    /// Panics without the rights for it.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        let [.., high, low] = id().to_be_bytes();
        let name = format!("relayer-rest-{}", id());
        // Names of interfaces have at most 15 bytes.
        let link = format!("rest{}", id());
        let [outside, inside] = [1, 2].map(|host| Ipv4Addr::new(10, 128 | high, low, host));
        run(&["netns", "add", &name]);
        let namespace = Self { name: name.clone(), link: link.clone(), outside };
        let peer = ["peer", "name", "inside", "netns", &name];
        run(&[&["link", "add", &link, "type", "veth"][..], &peer].concat());
        run(&["address", "add", &format!("{outside}/30"), "dev", &link]);
        run(&["link", "set", &link, "up"]);
        run(&["-n", &name, "address", "add", &format!("{inside}/30"), "dev", "inside"]);
        run(&["-n", &name, "link", "set", "inside", "up"]);
        run(&["-n", &name, "link", "set", "lo", "up"]);
        namespace
    }

    /// Returns the address of the tests, as the namespace sees them.
    #[must_use]
    pub fn outside(&self) -> Ipv4Addr {
        self.outside
    }

    /// Returns the words that run a command in the namespace.
    #[must_use]
    pub fn launcher(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// Cuts the link, so that nothing arrives on either side, or restores it.
    ///
    /// # Panics
    /// Panics without the rights for it.
    pub fn set_cut(&self, is_cut: bool) {
        run(&["link", "set", &self.link, if is_cut { "down" } else { "up" }]);
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        Command::new("ip").args(["netns", "delete", &self.name]).status().ok();
    }
}

#[track_caller]
fn run(args: &[&str]) {
    let output = Command::new("ip").args(args).output().expect("ip, of the package iproute2");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {errors}", args.join(" "));
}

/// Returns whether this user can create mount namespaces.
pub async fn has_own_mounts() -> bool {
    let ended = tokio::process::Command::new("unshare").args(["--mount", "true"]).output().await;
    let is_allowed = ended.is_ok_and(|ended| ended.status.success());
    if !is_allowed {
        eprintln!("skipped in part: this needs `unshare --mount`");
    }
    is_allowed
}
