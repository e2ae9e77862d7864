//! Does the server start, or explain why not, if the system is short of resources?

use std::io::Write;
use std::process::Stdio;

use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::send_signal;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::wait::within;
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Returns a server that compiles its module after this line of a shell script, which
/// limits its resources.
fn limited(script: &str) -> Program {
    Program::server().args(["--no-code-cache"]).after(script)
}

/// Checks that the server responds, and stops on a signal.
async fn check_serves(program: Program) {
    let process = program.start().await;
    assert_eq!(process.connect().await.get("/version").await.status, 200);
    process.stop().await;
}

#[tokio::test]
async fn the_default_limits_fit_into_little_address_space() {
    for kib in ["67108864", "25165824"] {
        check_serves(limited(&format!("ulimit -v {kib}"))).await;
    }
}

#[tokio::test]
async fn too_little_address_space_is_an_error_whose_advice_works() {
    let limit = "ulimit -v 8388608";
    let ended = limited(limit).run().await;
    assert_eq!(ended.status, Some(2), "{ended:?}");
    let message = ended.stderr.lines().last().unwrap();
    let expected = "64 instances of 64.0 MiB reserve 13.6 GiB of address space: lower limits.concurrency, limits.memory or limits.table, or raise the limit of the process (ulimit -v, ulimit -d)";
    assert!(message.contains(expected), "{message}");
    let folder = Folder::new();
    for (name, settings) in [("concurrency", "concurrency = 8"), ("memory", "memory = \"4MiB\"")] {
        let file = folder.write(name, format!("[module.limits]\n{settings}\n"));
        check_serves(limited(limit).args(["--config", &file])).await;
    }
}

/// Many systems use pages of 2 MiB by default, and with them, a connection takes twice the memory.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_server_has_no_huge_pages_by_default() {
    let settings = std::path::Path::new("/sys/kernel/mm/transparent_hugepage");
    let is_chosen = |size: &str| {
        let own = std::fs::read_to_string(settings.join(format!("hugepages-{size}kB/enabled")));
        own.is_ok_and(|own| own.contains("[always]") || own.contains("[inherit]"))
    };
    if ["8", "16", "32", "64"].into_iter().any(is_chosen) {
        return;
    }
    let process = Program::server().start().await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    assert!(status.contains("THP_enabled:\t0\n"), "{status}");
    process.stop().await;
}

/// With pages of 64 KiB, too, a connection takes two thirds more.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[tokio::test]
async fn the_heap_has_no_huge_pages() {
    // The allocator prints its options when the process ends.
    let program = Program::new(["--version"]).env("_RJEM_MALLOC_CONF", "stats_print:true");
    let ended = program.run().await;
    assert!(ended.stderr.contains("  opt.thp: \"never\"\n"), "{ended:?}");
}

/// The task runtime panics at an invalid number of threads.
#[tokio::test]
async fn an_invalid_number_of_threads_in_the_environment_has_no_effect() {
    check_serves(limited("export TOKIO_WORKER_THREADS=0")).await;
}

/// The image of a module's memory is an in-memory file.
#[tokio::test]
async fn a_lack_of_room_for_a_memory_image_is_an_error() {
    let ended = limited("ulimit -f 0").run().await;
    assert_eq!(ended.status, Some(2), "{ended:?}");
    let message = ended.stderr.lines().last().unwrap();
    assert!(message.contains("cannot write the image of its memory: "), "{message}");
    assert!(message.contains("ulimit -f"), "{message}");
}

/// The process that started the server may read only the log.
#[tokio::test]
async fn a_full_pipe_does_not_block_the_server() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&vec![0; fcntl_getpipe_size(&writer).unwrap()]).unwrap();
    let mut command = Program::server().args(["--no-code-cache"]).command();
    let mut child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        let read = within("the address in the log", log.read_line(&mut line)).await.unwrap();
        assert!(read > 0, "the log ends without an address");
    }
    let address = line.trim_end().rsplit_once("address=").unwrap().1.parse().unwrap();
    let mut client = Client::http1(address).await;
    assert_eq!(client.get("/version").await.status, 200);
    send_signal(child.id().unwrap().try_into().unwrap(), Signal::TERM);
    let ended = within("the end of the server", child.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(0));
    drop(reader);
}

/// With thread stacks of 8 GiB, a limit of address space limits the number of threads.
/// Some tests run as root, whose processes and threads are not limited directly.
#[tokio::test]
async fn a_process_without_threads_ends_with_an_error() {
    // With none, with only the log's, and with some of the others.
    for threads in [0, 1, 2, 4] {
        let kib = (6 + 8 * threads) << 20;
        let limit = format!("export RUST_MIN_STACK=8589934592; ulimit -v {kib}");
        let ended = limited(&limit).run().await;
        assert_eq!(ended.status, Some(2), "{threads}: {ended:?}");
        let message = ended.stderr.lines().last().unwrap();
        assert!(
            message.starts_with("relayer-rest: cannot start: no thread can be created: "),
            "{message}"
        );
        assert!(message.contains("ulimit -u"), "{message}");
    }
}
