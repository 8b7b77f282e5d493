//! A clock of the wall that a test sets, for processes that it starts: Debian's `faketime`. Clocks that measure how much
//! time has passed go on as they are.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::process::Command;

/// Clones are the same clock.
#[derive(Clone, Debug)]
pub struct SteppedClock(Arc<TempDir>);

impl Default for SteppedClock {
    /// One that is right.
    fn default() -> Self {
        let clock = Self(Arc::new(tempfile::tempdir().expect("a folder")));
        clock.set(0);
        clock
    }
}

impl SteppedClock {
    /// Sets it to so many seconds before or after the time that it is, for all who have it.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn set(&self, seconds: i64) {
        // Another file in its place, so that nobody reads half of one.
        let next = self.0.path().join("next");
        std::fs::write(&next, format!("{seconds:+}\n")).expect("it is written");
        std::fs::rename(next, self.file()).expect("it is in place");
    }

    /// Lets a process that is not started yet have this clock.
    ///
    /// # Panics
    /// When faketime is not installed.
    pub fn give_to(&self, command: &mut Command) {
        let library = library().expect("the package faketime is installed");
        command
            // Redis' own allocator asks for the time before there is one, so that Redis gets libc's.
            .env("LD_PRELOAD", format!("{} libc_malloc_debug.so.0", library.display()))
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            // The file is read each time that somebody asks for the time.
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DONT_RESET", "1");
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("offset")
    }
}

/// Where Debian has it: a folder for each architecture.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}
