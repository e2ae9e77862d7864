//! The command in a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::write;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::process::Child;

use crate::program::Program;
use crate::wait::until;

/// The command in a terminal of 24 lines and 100 columns.
pub struct Terminal {
    /// The process.
    pub child: Child,
    /// The program's side of the terminal.
    program_side: OwnedFd,
    /// The user's side of the terminal.
    user_side: OwnedFd,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts the command in a terminal.
    #[must_use]
    pub fn start(program: &Program) -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let stream = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = program.command();
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&screen);
        let mut output = File::from(user.try_clone().unwrap());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]);
                written.lock().unwrap().push_str(&text);
            }
        });
        Self { child, program_side: terminal, user_side: user, screen }
    }

    /// Waits until the command has written this text.
    pub async fn shows(&self, text: &str) {
        until(text, || self.screen().contains(text)).await;
    }

    /// Returns the output of the command.
    #[must_use]
    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Returns whether the terminal echoes input, and interrupts at Ctrl-C.
    #[must_use]
    pub fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.program_side).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Presses keys.
    pub fn press(&self, keys: &[u8]) {
        assert_eq!(write(&self.user_side, keys).unwrap(), keys.len());
    }
}
