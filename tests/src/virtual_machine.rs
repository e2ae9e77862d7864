//! A virtual machine with another processor.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::cargo::root;
use crate::folder::Folder;
use crate::program::{Ended, Program};
use crate::wait::within;

/// A processor without AVX, which code for later ones uses.
const PROCESSOR: &str = "Nehalem";

/// The folder of the data in the machine.
pub const DATA: &str = "/data";

/// The first process of the machine. Its output is on the serial port.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tmpfs tmp /tmp
/bin/busybox stty -F /dev/ttyS0 raw
exec </dev/null >/dev/ttyS0 2>&1
/bin/busybox grep flags -m 1 /proc/cpuinfo
HOME=/tmp /bin/relayer-rest ARGUMENTS >/tmp/stdout 2>/tmp/stderr
status=$?
for output in stdout stderr; do
    echo $output $(/bin/busybox wc -c </tmp/$output)
    /bin/busybox cat /tmp/$output
done
echo status $status
exec >/dev/null 2>&1
/bin/busybox poweroff -f
";

/// The output of a machine.
#[derive(Debug)]
pub struct Machine {
    /// The features of its processor, as `/proc/cpuinfo` lists them.
    pub features: String,
    /// The end of the command.
    pub ended: Ended,
}

impl Machine {
    /// Starts a machine with these files in [`DATA`], runs the command there, and stops it.
    ///
    /// # Panics
    ///
    /// Panics if the machine does not start.
    pub async fn run(data: &Path, args: &[String]) -> Self {
        let files = Folder::new();
        let image = image(&files, data, args);
        let output = Command::new("qemu-system-x86_64")
            .args(["-accel", "tcg", "-cpu", PROCESSOR, "-m", "3G", "-nodefaults", "-no-reboot"])
            .args(["-display", "none", "-serial", "stdio", "-append"])
            .arg("console=ttyS0 quiet loglevel=0 panic=-1")
            .arg("-kernel")
            .arg(kernel())
            .arg("-initrd")
            .arg(image)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = within("the end of the machine", output).await;
        let output = output.expect("qemu-system-x86_64 is installed");
        let text = String::from_utf8_lossy(&output.stdout);
        Self::parse(&text).unwrap_or_else(|| {
            panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (features, mut text) = text.split_once('\n')?;
        let mut outputs = ["stdout", "stderr"].into_iter().map_while(|name| {
            let (length, rest) = text.strip_prefix(name)?.split_once('\n')?;
            let (output, rest) = rest.split_at_checked(length.trim().parse().ok()?)?;
            text = rest;
            Some(output.to_owned())
        });
        let (stdout, stderr) = (outputs.next()?, outputs.next()?);
        let status = text.strip_prefix("status ")?.lines().next()?.parse().ok()?;
        Some(Self {
            features: features.to_owned(),
            ended: Ended { status: Some(status), stdout, stderr },
        })
    }
}

/// Returns a kernel: the one of `.ci/run`, or else one of this machine that can be read.
fn kernel() -> PathBuf {
    let folders = [root().join("target/tools/kernel/boot"), "/boot".into()];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok());
    let paths = files.flatten().map(|file| file.unwrap().path());
    let is_kernel = |path: &PathBuf| {
        let is_named =
            path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("vmlinuz-"));
        is_named && fs::File::open(path).is_ok()
    };
    let mut kernels = paths.filter(is_kernel);
    kernels.next().expect("there is a kernel in target/tools/kernel/boot or /boot")
}

/// Makes the file system of a machine.
fn image(files: &Folder, data: &Path, args: &[String]) -> PathBuf {
    let root = files.join("root");
    for folder in ["bin", "dev", "proc", "tmp"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).expect("busybox is installed");
    Program::copy_libraries(&root);
    // Without debug information, which would take most of the memory.
    let strip = ["--strip-debug", "-o", "root/bin/relayer-rest"];
    run(files, std::process::Command::new("strip").args(strip).arg(Program::path()));
    run(files, std::process::Command::new("cp").arg("-r").arg(data).arg(format!("root{DATA}")));
    let args: Vec<_> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let init = root.join("init");
    fs::write(&init, INIT.replace("ARGUMENTS", &args.join(" "))).unwrap();
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).unwrap();
    let pack = "cd root && find . | cpio --create --format newc --quiet >../image";
    run(files, std::process::Command::new("sh").args(["-c", pack]));
    files.join("image")
}

fn run(files: &Folder, command: &mut std::process::Command) {
    let output = command.current_dir(files.as_path()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
