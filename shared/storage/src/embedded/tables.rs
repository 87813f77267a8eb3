//! The tables of the embedded store's file and what is read from them.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | number: `revision` (of the last write), `compacted`, `scrubbed` |
//! | `keys` | key | revision of its last write, whether that was a deletion, deadline in Unix ms (0: none) |
//! | `log` | revision | key, revision of the write before it (0: none), value (`None`: deletion) |
//! | `expiry` | deadline in Unix ms, key | revision of the write that set it |
//!
//! A value is written once, into the log; `keys` points to it. Older states are reached by following the chain of previous
//! revisions, deletions stay as tombstones, and compaction removes from the log what a compacted revision no longer shows.
//! Invariant: everything a reader at or after `compacted` can reach is there.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable, TableDefinition};

use crate::error::Error;
use crate::store::{Change, Entry, Page, Range, Revision};

/// Revision of the key's last write, whether it was a deletion, deadline.
pub(super) type Head = (u64, bool, u64);
/// Key, revision of the write before, value.
pub(super) type Record = (&'static str, u64, Option<&'static [u8]>);

pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
pub(super) const KEYS: TableDefinition<'static, &'static str, Head> = TableDefinition::new("keys");
pub(super) const LOG: TableDefinition<'static, u64, Record> = TableDefinition::new("log");
pub(super) const EXPIRY: TableDefinition<'static, (u64, &'static str), u64> = TableDefinition::new("expiry");

/// The revision of a store nothing was written to: etcd's.
pub(super) const FIRST_REVISION: Revision = 1;

/// Changes a history read returns at once at most.
const HISTORY_CHANGES: usize = 1024;
/// Bytes of values after which a history read stops early.
const HISTORY_BYTES: usize = 4 << 20;

pub(super) fn failed(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => Error::NoSpace,
        redb::Error::Corrupted(what) => Error::Corrupt(format!("the store's file is damaged: {what}")),
        error => Error::Unavailable(format!("the store's file: {error}")),
    }
}

fn dangling(revision: Revision) -> Error {
    Error::Corrupt(format!("the store's file is damaged: revision {revision} is missing"))
}

pub(super) fn meta(meta: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<Option<u64>, Error> {
    Ok(meta.get(name).map_err(failed)?.map(|value| value.value()))
}

/// The entry a log revision holds; `None` for a deletion.
pub(super) fn entry_at(log: &impl ReadableTable<u64, Record>, revision: Revision) -> Result<Option<Entry>, Error> {
    let record = log.get(revision).map_err(failed)?.ok_or_else(|| dangling(revision))?;
    let (key, _, value) = record.value();
    Ok(value.map(|value| Entry {
        key: key.into(),
        revision,
        value: Bytes::copy_from_slice(value),
    }))
}

pub(super) fn get(read: &ReadTransaction, key: &str) -> Result<(Option<Entry>, Revision), Error> {
    let revision = meta(&read.open_table(META).map_err(failed)?, "revision")?.unwrap_or(FIRST_REVISION);
    let head = read
        .open_table(KEYS)
        .map_err(failed)?
        .get(key)
        .map_err(failed)?
        .map(|head| head.value());
    let entry = match head {
        Some((at, false, _)) => entry_at(&read.open_table(LOG).map_err(failed)?, at)?,
        _ => None,
    };
    Ok((entry, revision))
}

/// Where the keys of a prefix end: the prefix with its last byte raised. Keys are text, so the byte stays below 0xff.
fn end_of(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // Skips the surrogate gap by itself; only the very last character has no successor.
        if let Some(next) = (u32::from(last) + 1..=0x10FFFF).find_map(char::from_u32) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

pub(super) fn range(read: &ReadTransaction, range: Range<'_>) -> Result<Page, Error> {
    let meta_table = read.open_table(META).map_err(failed)?;
    let current = meta(&meta_table, "revision")?.unwrap_or(FIRST_REVISION);
    let compacted = meta(&meta_table, "compacted")?.unwrap_or(0);
    let revision = range.at.unwrap_or(current);
    if revision < compacted {
        return Err(Error::Compacted { oldest: compacted });
    }
    if revision > current {
        return Err(Error::FutureRevision { current });
    }
    let keys = read.open_table(KEYS).map_err(failed)?;
    let log = read.open_table(LOG).map_err(failed)?;
    let start = range.from.filter(|from| *from > range.prefix).unwrap_or(range.prefix);
    let end = end_of(range.prefix);
    if end.as_deref().is_some_and(|end| start >= end) {
        return Ok(Page {
            entries: Vec::new(),
            remaining: 0,
            revision,
        });
    }
    let bounds = (
        Bound::Included(start),
        end.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
    );
    let mut page = Page {
        entries: Vec::new(),
        remaining: 0,
        revision,
    };
    for item in keys.range::<&str>(bounds).map_err(failed)? {
        let (_, head) = item.map_err(failed)?;
        let (mut at, mut deleted, _) = head.value();
        while at > revision {
            let Some(record) = log.get(at).map_err(failed)? else {
                return Err(dangling(at));
            };
            at = record.value().1;
            // A previous state that is gone was compacted, which only happens to what no readable revision shows.
            let Some(record) = log.get(at).map_err(failed)? else {
                (at, deleted) = (0, true);
                break;
            };
            deleted = record.value().2.is_none();
        }
        if deleted || at == 0 {
            continue;
        }
        if range.limit != 0 && page.entries.len() == range.limit {
            page.remaining += 1;
        } else {
            page.entries.extend(entry_at(&log, at)?);
        }
    }
    Ok(page)
}

/// A piece of history.
pub(super) struct History {
    pub(super) changes: Vec<Change>,
    /// Everything up to this revision is in `changes`.
    pub(super) until: Revision,
}

/// Changes below `prefix` after one revision, up to another; may stop early.
pub(super) fn history(
    read: &ReadTransaction,
    prefix: &str,
    after: Revision,
    until: Revision,
) -> Result<History, Error> {
    let compacted = meta(&read.open_table(META).map_err(failed)?, "compacted")?.unwrap_or(0);
    if after < compacted {
        return Err(Error::Compacted { oldest: compacted });
    }
    let log = read.open_table(LOG).map_err(failed)?;
    let (mut changes, mut bytes) = (Vec::new(), 0);
    for item in log.range(after + 1..=until).map_err(failed)? {
        let (revision, record) = item.map_err(failed)?;
        let (revision, (key, _, value)) = (revision.value(), record.value());
        if !key.starts_with(prefix) {
            continue;
        }
        let key: Arc<str> = key.into();
        changes.push(match value {
            Some(value) => {
                bytes += value.len();
                Change::Put(Entry {
                    key,
                    revision,
                    value: Bytes::copy_from_slice(value),
                })
            }
            None => Change::Delete { key, revision },
        });
        if changes.len() == HISTORY_CHANGES || bytes > HISTORY_BYTES {
            return Ok(History {
                changes,
                until: revision,
            });
        }
    }
    Ok(History { changes, until })
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn the_end_of_a_prefix_is_its_successor() {
        assert_eq!(end_of("/pods/").as_deref(), Some("/pods0"));
        assert_eq!(end_of("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(end_of("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(end_of(""), None);
    }
}
