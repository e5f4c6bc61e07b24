//! Fresh folders and ports.

use std::net::TcpListener;

use tempfile::TempDir;

/// A path longer than this does not fit in a Unix socket's address, nor do the
/// few letters that a server adds to it.
const FOLDER_PATH_MAX: usize = 80;

/// A new folder in the temporary directory, short enough for a socket in it.
pub(crate) fn fresh_folder() -> std::io::Result<TempDir> {
    let mut names = tempfile::Builder::new();
    names.prefix("causeway-");
    let folder = names.tempdir()?;
    if folder.path().as_os_str().len() <= FOLDER_PATH_MAX {
        return Ok(folder);
    }
    names.tempdir_in("/tmp")
}

/// A port of 127.0.0.1 that nobody listens on at this moment.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
