//! Does the image serve with a read-only root file system, and without rights?
//!
//! The base image and the build of the command come from registries that tests do not reach:
//! the base has the libraries of this machine instead, and the command is the tested one.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::chown;
use std::process::{Child, Command, Stdio};

use relayer_rest_tests::cargo::root;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Runs a command in the root file system `$1` of a container, as its user `$2`, without
/// capabilities and with the mounts of a runtime: a read-only root, the folders of processes
/// and devices, and for each volume a folder in `$3`.
const RUN: &str = "set -e
root=$1 user=$2 volumes=$3
shift 3
mount --bind $root $root
mount -o remount,bind,ro $root
mount -t proc proc $root/proc
mount --rbind /dev $root/dev
for folder in $volumes/*/*/; do mount --bind $folder $root/${folder#$volumes/}; done
exec setpriv --no-new-privs --bounding-set -all,+sys_chroot,+setuid,+setgid chroot --userspec=$user $root \"$@\"";

/// A server that ends with the test, also if that fails.
struct Running(Child);

struct Image {
    files: Folder,
    /// Its settings: user, environment, command and health check.
    config: Value,
    root: String,
}

impl Image {
    fn build() -> Self {
        let files = Folder::new();
        let base = base(&files);
        buildah(&files, &["build", "--isolation=chroot", "--tag=localhost/base", &base]);
        let built = files.join("build");
        let folder = built.join("src/target/release");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir(built.join("empty")).unwrap();
        fs::copy(Program::path(), folder.join("relayer-rest")).unwrap();
        let file = root().join("Containerfile");
        buildah(
            &files,
            &[
                "build",
                "--isolation=chroot",
                // The other format has no health check.
                "--format=docker",
                "--tag=localhost/relayer-rest",
                "--build-arg=BASE=localhost/base",
                &format!("--build-context=build={}", built.display()),
                &format!("--file={}", file.display()),
                &built.display().to_string(),
            ],
        );
        let described = buildah(&files, &["inspect", "--type=image", "localhost/relayer-rest"]);
        let mut described: Value = serde_json::from_str(&described).unwrap();
        let container = buildah(&files, &["from", "localhost/relayer-rest"]);
        let root = buildah(&files, &["mount", container.trim()]).trim().to_owned();
        let config = described["Docker"]["config"].take();
        for volume in config["Volumes"].as_object().unwrap().keys() {
            let folder = files.join(format!("volumes{volume}"));
            fs::create_dir_all(&folder).unwrap();
            // A runtime creates a volume with the owner that the image has there.
            let owner = fs::metadata(format!("{root}{volume}")).unwrap();
            let ids = std::os::unix::fs::MetadataExt::uid(&owner);
            chown(&folder, Some(ids), Some(ids)).unwrap();
        }
        Self { files, config, root }
    }

    /// Returns a list of texts in the settings.
    fn list(&self, pointer: &str) -> Vec<&str> {
        let list = self.config.pointer(pointer).and_then(Value::as_array).unwrap();
        list.iter().map(|text| text.as_str().unwrap()).collect()
    }

    /// Runs a command, with its output piped.
    fn run(&self, command: &[&str]) -> Child {
        let volumes = self.files.path("volumes");
        let user = self.config["User"].as_str().unwrap();
        let environment = self.list("/Env").into_iter().filter_map(|set| set.split_once('='));
        Command::new("unshare")
            .args(["--mount", "sh", "-c", RUN, "sh", &self.root, user, &volumes])
            .args(command)
            .env_clear()
            .envs(environment)
            // A port that is free on this machine.
            .env("RELAYER_REST_LISTEN", "0.0.0.0:0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("util-linux is installed")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended if the test succeeds.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Writes the files of a base image: the libraries of the command, and the folders that a
/// runtime mounts. Returns its folder.
fn base(files: &Folder) -> String {
    let base = files.join("base");
    for folder in ["proc", "dev"] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    Program::copy_libraries(&base);
    fs::write(base.join("Containerfile"), "FROM scratch\nCOPY . /\n").unwrap();
    base.display().to_string()
}

/// Runs buildah with storage in a folder of the test. Returns its output.
fn buildah(files: &Folder, arguments: &[&str]) -> String {
    let output = Command::new("buildah")
        .args(["--storage-driver=vfs", "--root", &files.path("storage")])
        .args(["--runroot", &files.path("run")])
        .args(arguments)
        .output()
        .expect("buildah is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
#[ignore = "needs buildah, and to be root: apt install buildah"]
async fn the_image_serves_with_a_read_only_root_and_without_rights() {
    let image = Image::build();
    let command = [image.list("/Entrypoint"), image.list("/Cmd")].concat();
    let mut serving = Running(image.run(&command));
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let url = lines.next().and_then(Result::ok);
    let log = serving.0.stderr.take().unwrap();
    let Some(url) = url else { panic!("{:?}", io::read_to_string(log)) };
    let port = url.rsplit(':').next().unwrap();
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let mut client = Client::http1(address).await;
    assert_eq!(client.get("/version").await.status, 200);

    let pid = Pid::from_child(&serving.0);
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let value =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let ids = image.config["User"].as_str().unwrap().split_once(':').unwrap();
    assert_eq!(value("Uid:").split_whitespace().next(), Some(ids.0));
    assert_ne!(ids.0, "0");
    assert_eq!(value("CapEff:").trim_start_matches('0'), "");
    let file = format!("/proc/{}/root/file", pid.as_raw_nonzero());
    let written = fs::write(file, "").unwrap_err();
    assert_eq!(written.kind(), io::ErrorKind::ReadOnlyFilesystem);

    let health = image.list("/Healthcheck/Test");
    assert_eq!(health[0], "CMD");
    let healthy = image.run(&health[1..]).wait_with_output().unwrap();
    assert!(healthy.status.success(), "{healthy:?}");
    let cached = fs::read_dir(image.files.join("volumes/var/cache/relayer-rest")).unwrap();
    assert!(cached.count() > 0, "the code cache has no file");

    assert_eq!(image.config["StopSignal"], "SIGTERM");
    kill_process(pid, Signal::TERM).unwrap();
    assert!(serving.0.wait().unwrap().success());
    let unhealthy = image.run(&health[1..]).wait_with_output().unwrap();
    assert!(!unhealthy.status.success(), "{unhealthy:?}");
}
