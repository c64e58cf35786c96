//! A process that does not outlive the one that started it.

use std::{
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{self, ChildStdin, Command, ExitStatus, Stdio},
};

use super::{ServerError, machine};

/// The shell between us and the program. It holds the reading end of a pipe whose writing end is ours alone: when we
/// die, however we die, the pipe closes and the program is ended. A signal's name on the pipe ends it by that signal.
///
/// Arguments: the folder (removed when the pipe closes without a word), the signal for that case, the program, its own.
/// A program that was stopped by SIGSTOP would keep an end pending: it is continued first.
const GUARD: &str = r#"
trap '' INT HUP TERM
exec 3<&0
folder=$1 signal=$2
shift 2
"$@" </dev/null >>"$folder/log" 2>&1 3<&- &
program=$!
{
  exec >/dev/null 2>&1
  if read -r word <&3; then signal=$word; else : >"$folder/abandoned"; fi
  kill -"$signal" $program
  kill -CONT $program
} &
guard=$!
echo $program
exec >/dev/null
wait $program
status=$?
[ -e "$folder/abandoned" ] && rm -rf "$folder"
kill $guard 2>/dev/null
exit $status
"#;

/// How a program is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// SIGTERM: it may finish what it is doing.
    Terminate,
    /// SIGINT: Postgres's fast shutdown.
    Interrupt,
    /// SIGQUIT: Postgres's immediate shutdown, as a crash that takes all its processes along.
    Quit,
    /// SIGKILL.
    Kill,
}

impl End {
    fn signal(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Interrupt => "INT",
            Self::Quit => "QUIT",
            Self::Kill => "KILL",
        }
    }
}

/// A program with a folder of its own, in which the file `log` takes what it writes. Dropping it ends the program; the
/// folder stays and is its owner's to remove, unless the owner dies.
#[derive(Debug)]
pub struct Child {
    shell: process::Child,
    words: Option<ChildStdin>,
    pid: u32,
    folder: PathBuf,
    ending: End,
}

impl Child {
    /// Starts the program with exactly these variables beside a plain `PATH`. `ending` is how it ends when this value
    /// is dropped, or when this process dies.
    pub fn start<S: AsRef<OsStr>>(
        folder: &Path,
        ending: End,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
        variables: impl IntoIterator<Item = (S, S)>,
    ) -> Result<Self, ServerError> {
        let failed = || machine(format!("starting {}", program.display()));
        let mut shell = Command::new("/bin/sh")
            .args(["-c", GUARD, "sh"])
            .arg(folder)
            .arg(ending.signal())
            .arg(program)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .envs(variables)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed())?;
        let words = shell.stdin.take();
        let mut line = String::new();
        if let Some(output) = shell.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(failed())?;
        }
        let pid = line
            .trim()
            .parse()
            .map_err(|_| failed()(io::Error::other("the shell told no process id")))?;
        Ok(Self {
            shell,
            words,
            pid,
            folder: folder.to_owned(),
            ending,
        })
    }

    /// The program's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// All that the program has written so far.
    pub fn log(&self) -> String {
        fs::read(self.folder.join("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// How the program ended, if it did. As a shell tells it: 128 + n for signal n.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.shell.try_wait().ok().flatten()
    }

    /// Ends the program and waits until it is gone.
    pub fn end(&mut self, end: End) {
        if let Some(mut words) = self.words.take() {
            // It may have ended by itself, and its shell with it.
            let _ = writeln!(words, "{}", end.signal());
        }
        let _ = self.shell.wait();
    }

    /// Stops the program in its tracks (SIGSTOP): its connections stay open and answer nothing.
    pub fn pause(&mut self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&mut self) {
        self.signal("CONT");
    }

    fn signal(&mut self, signal: &str) {
        if self.ended().is_none() {
            signal_to(signal, &[self.pid]);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end(self.ending);
    }
}

/// Sends a signal to processes that are ours.
pub(super) fn signal_to(signal: &str, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string);
    // One that has just ended is no matter.
    let _ = Command::new("/bin/sh")
        .args(["-c", r#"kill -"$@""#, "sh", signal])
        .args(pids)
        .stderr(Stdio::null())
        .status();
}
