//! Is data of a request left in its slot if the system swaps while it runs?

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytesize::ByteSize;
use relayer_rest_host::module::{CallError, Limits, Module, RunPermit};
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{engine, patient, request};
use rustix::mm::{Advice, madvise};

use crate::memory::writable;

/// The number of requests that look for data of another request, and the number of them
/// that run at once.
const READS: usize = 10_000;
const AT_ONCE: usize = 16;

/// The memory of an instance, in WebAssembly pages: a size that no other mapping of this
/// process has.
const PAGES: usize = 41;

/// The number to which a request counts after it has written, which takes about a
/// millisecond.
const COUNT: u32 = 2_000_000;

/// The swap file's size, in bytes.
const SWAP: u64 = 128 << 20;

/// Returns a component that traps if its memory is not zero. Otherwise it writes to 64
/// pages of the system, counts to a number, so that they can be swapped out meanwhile, and
/// responds with 204.
fn finder() -> Vec<u8> {
    component::of_module(&format!(
        r#"(module
            (memory (export "memory") {PAGES} {PAGES})
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 1024)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local $left i32)
                (local.set $at (i32.const 65536))
                (loop $more
                    (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then unreachable))
                    (i64.store (local.get $at) (i64.const -1))
                    (local.set $at (i32.add (local.get $at) (i32.const 4096)))
                    (br_if $more (i32.lt_u (local.get $at) (i32.const 327680))))
                (local.set $left (i32.const {COUNT}))
                (loop $on
                    (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
                (i32.store16 (i32.const 0) (i32.const 204))
                i32.const 0))"#
    ))
}

/// A swap file, in use until it is dropped.
struct SwapFile(PathBuf);

impl SwapFile {
    /// Creates a swap file and enables it.
    ///
    /// # Errors
    ///
    /// Returns the reason if the system refuses a swap file.
    fn on() -> Result<Self, String> {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("swap");
        let run = |program: &str| {
            let output = Command::new(program).arg(&path).output();
            let output = output.map_err(|error| format!("{program}: {error}"))?;
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            if output.status.success() { Ok(()) } else { Err(format!("{program}: {why}")) }
        };
        // A file may be left from a killed run.
        run("swapoff").ok();
        fs::remove_file(&path).ok();
        let file = File::create(&path).map_err(|error| error.to_string())?;
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        // The system refuses a file with holes.
        let block = vec![0; 1 << 20];
        for _ in 0..SWAP >> 20 {
            std::io::Write::write_all(&mut &file, &block).map_err(|error| error.to_string())?;
        }
        run("mkswap")?;
        let swap = Self(path.clone());
        run("swapon").map(|()| swap)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        Command::new("swapoff").arg(&self.0).output().ok();
        fs::remove_file(&self.0).ok();
    }
}

/// Returns the number of bytes of this process that are swapped out.
fn swapped() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Requests that the system swap out the memories of instances.
#[allow(unsafe_code, reason = "the call takes an address")]
fn page_out() {
    for range in writable().into_iter().filter(|range| range.len() == PAGES << 16) {
        // SAFETY: the content does not change, wherever the system keeps it.
        unsafe { madvise(range.start as *mut _, range.len(), Advice::LinuxPageOut) }.ok();
    }
}

#[test]
#[ignore = "needs root and a swap file"]
fn requests_never_read_data_of_others_while_the_system_swaps() {
    let swap = match SwapFile::on() {
        Ok(swap) => swap,
        Err(refused) => return eprintln!("SKIPPED: the system refuses a swap file: {refused}"),
    };
    let limits = Limits {
        concurrency: u32::try_from(AT_ONCE).unwrap(),
        response_cache: ByteSize::b(0),
        memory: ByteSize::mib(8),
        ..patient()
    };
    let module = Module::from_bytes(&engine(&limits), "finds", &finder()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let peak = Arc::new(AtomicU64::new(0));
    let swapping = std::thread::spawn({
        let stop = Arc::clone(&stop);
        let peak = Arc::clone(&peak);
        move || {
            while !stop.load(Relaxed) {
                page_out();
                peak.fetch_max(swapped(), Relaxed);
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut clean = 0;
    let mut found = 0;
    runtime.block_on(async {
        for _ in 0..READS / AT_ONCE {
            let running: Vec<_> = (0..AT_ONCE)
                .map(|_| {
                    let module = module.clone();
                    tokio::spawn(async move {
                        let snapshot = StatePublisher::new().reader().snapshot();
                        let permit = RunPermit::acquire(&module).await?;
                        permit.execute(request("GET", "/", &[]), snapshot).await.map(drop)
                    })
                })
                .collect();
            for running in running {
                match running.await.unwrap() {
                    Ok(()) => clean += 1,
                    Err(CallError::Trap(_)) => found += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    stop.store(true, Relaxed);
    swapping.join().unwrap();
    drop(swap);
    assert!(peak.load(Relaxed) > 0, "nothing was swapped out");
    assert_eq!((clean, found), (READS, 0));
}
