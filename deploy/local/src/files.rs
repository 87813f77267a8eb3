//! Files that are there whole or not at all: written beside their place, then renamed.
//!
//! There is no fsync: what a power failure leaves behind is found unusable at the next start and made anew, and thirty
//! of them would cost more than the rest of the start.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only the owner: keys and what contains them.
    Private,
    /// Everybody: certificates, addresses.
    Public,
}

/// Replaces `path` by a file with this content.
pub(crate) fn write(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let folder = path
        .parent()
        .ok_or_else(|| io::Error::other("the path has no folder"))?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(content)?;
    let mode = match access {
        Access::Private => 0o600,
        Access::Public => 0o644,
    };
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Like [`write`], but leaves a file alone that already has this content.
pub(crate) fn update(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    match std::fs::read(path) {
        Ok(present) if present == content => Ok(()),
        _ => write(path, content, access),
    }
}

/// The last `most` lines of a file; nothing when it cannot be read. Only its last 64 KiB are looked at.
pub(crate) fn last_lines(path: &Path, most: usize) -> Vec<String> {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(64 * 1024)))?;
        let mut tail = Vec::new();
        file.take(64 * 1024).read_to_end(&mut tail)?;
        Ok(tail)
    };
    let tail = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&tail);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..]
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_readable_by_its_owner_alone_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.key");
        write(&path, b"secret", Access::Private).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        write(&path, b"other", Access::Public).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(std::fs::read(&path).unwrap(), b"other");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_last_lines_of_a_long_log_are_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        std::fs::write(&path, text).unwrap();
        assert_eq!(last_lines(&path, 2), ["line 19998", "line 19999"]);
        assert!(last_lines(&dir.path().join("none"), 2).is_empty());
    }
}
