//! Standard output.

use std::io::{self, ErrorKind, Write};

/// Writes a text to standard output. That nobody reads on, as before `| head`, is no error.
///
/// # Errors
/// Where it cannot be written for another reason.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}
