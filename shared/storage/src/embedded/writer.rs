//! The one thread that writes: it gathers what waits, applies it in one transaction, syncs once, tells the watches, and only
//! then answers. It also deletes what has expired and compacts.
//!
//! While one batch is being synced the next gathers, so throughput grows with the number of writers and a lone writer
//! waits for one sync.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, Table, WriteTransaction};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::fanout::Fanout;
use super::file::StoreFile;
use super::tables::{EXPIRY, Head, KEYS, LOG, META, Record, entry_at, failed, meta};
use crate::error::{Conflict, Error, WriteError};
use crate::store::{Change, Entry, Expect, Revision};

/// Commands one transaction takes at most.
const BATCH: usize = 256;
/// Expired keys one transaction deletes at most.
const SWEEP: usize = 500;
/// Log records one transaction looks at to compact.
const SCRUB: u64 = 2000;
/// Expired keys are gathered for this long before a sweep.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Time between attempts to open a file again that failed.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

pub(super) enum Command {
    Write {
        key: Box<str>,
        expect: Expect,
        put: Option<Bytes>,
        ttl: Option<Duration>,
        reply: oneshot::Sender<Result<Revision, WriteError>>,
        /// Counts the command as waiting; the queue is bounded by permits.
        permit: OwnedSemaphorePermit,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<(), Error>>,
    },
}

pub(super) struct Writer {
    file: Arc<StoreFile>,
    /// When a file that failed is opened again.
    reopen_at: Option<Instant>,
    fanout: Arc<Fanout>,
    commands: Receiver<Command>,
    revision: Revision,
    compacted: Revision,
    /// The log is compacted up to here; lags behind `compacted` while there is work left.
    scrubbed: Revision,
    next_expiry: Option<u64>,
    /// No sweep and no scrubbing before this.
    housekeeping_after: Instant,
    compaction: Option<Compaction>,
}

/// Compacts, at every interval, to where the store was one interval ago.
struct Compaction {
    interval: Duration,
    next: Instant,
    mark: Revision,
}

/// Who waits, and what to say.
type Answer<T, E> = (oneshot::Sender<Result<T, E>>, Result<T, E>);

/// What a transaction leaves to be told once it is durable.
#[derive(Default)]
struct Outcome {
    changes: Vec<Change>,
    writes: Vec<Answer<Revision, WriteError>>,
    compactions: Vec<Answer<(), Error>>,
    revision: Revision,
    compacted: Revision,
    scrubbed: Revision,
    earliest_deadline: Option<u64>,
    dirty: bool,
}

impl Writer {
    pub(super) fn new(
        file: Arc<StoreFile>,
        fanout: Arc<Fanout>,
        commands: Receiver<Command>,
        interval: Option<Duration>,
    ) -> Result<Self, Error> {
        let (revision, now) = (fanout.published(), Instant::now());
        let mut writer = Self {
            file,
            reopen_at: None,
            fanout,
            commands,
            revision,
            compacted: 0,
            scrubbed: 0,
            next_expiry: None,
            housekeeping_after: now,
            compaction: interval.map(|interval| Compaction {
                interval,
                next: now + interval,
                mark: revision,
            }),
        };
        let database = writer.file.database()?;
        writer.load(&database)?;
        Ok(writer)
    }

    /// Reads where the store is.
    fn load(&mut self, database: &Database) -> Result<(), Error> {
        let read = database.begin_read().map_err(failed)?;
        let table = read.open_table(META).map_err(failed)?;
        self.revision = meta(&table, "revision")?.unwrap_or(self.revision);
        self.compacted = meta(&table, "compacted")?.unwrap_or(0).max(self.compacted);
        self.scrubbed = meta(&table, "scrubbed")?.unwrap_or(0);
        let expiry = read.open_table(EXPIRY).map_err(failed)?;
        self.next_expiry = expiry.first().map_err(failed)?.map(|(key, _)| key.value().0);
        Ok(())
    }

    /// Opens the file again. What the failed write left there, if anything, was answered with an error and is told now.
    fn reopen(&mut self) {
        let reopened = self.file.reopen().and_then(|database| self.load(&database));
        match reopened {
            Ok(()) => {
                self.reopen_at = None;
                self.fanout.resume_from_history(self.revision);
                tracing::info!(revision = self.revision, "the store's file was opened again");
            }
            Err(error) => {
                tracing::debug!(%error, "the store's file could not be opened again");
                self.reopen_at = Some(Instant::now() + REOPEN_EVERY);
            }
        }
    }

    /// Runs until all senders are gone.
    pub(super) fn run(mut self) {
        let _closing = Closing(self.fanout.clone());
        loop {
            let first = match self.commands.recv_timeout(self.idle_time()) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut batch: Vec<Command> = first.into_iter().collect();
            while batch.len() < BATCH
                && let Ok(command) = self.commands.try_recv()
            {
                batch.push(command);
            }
            if let Some(compaction) = &mut self.compaction
                && compaction.next <= Instant::now()
            {
                compaction.next = Instant::now() + compaction.interval;
                self.compacted = self.compacted.max(compaction.mark);
                compaction.mark = self.revision;
            }
            self.step(batch);
            if self.reopen_at.is_some_and(|at| at <= Instant::now()) {
                self.reopen();
            }
        }
    }

    /// How long nothing needs to be done without a command.
    fn idle_time(&self) -> Duration {
        let now = Instant::now();
        if let Some(at) = self.reopen_at {
            return at.saturating_duration_since(now);
        }
        let earliest = self.housekeeping_after.saturating_duration_since(now);
        if self.scrubbed < self.compacted {
            return earliest;
        }
        let compaction = self
            .compaction
            .as_ref()
            .map(|compaction| compaction.next.saturating_duration_since(now));
        let sweep = self
            .next_expiry
            .map(|deadline| Duration::from_millis(deadline.saturating_sub(unix_ms())).max(earliest));
        compaction
            .into_iter()
            .chain(sweep)
            .min()
            .unwrap_or(Duration::from_secs(3600))
    }

    fn step(&mut self, batch: Vec<Command>) {
        let rested = self.housekeeping_after <= Instant::now();
        let sweep = rested && self.next_expiry.is_some_and(|deadline| deadline <= unix_ms());
        let scrub = rested && self.scrubbed < self.compacted;
        if batch.is_empty() && !sweep && !scrub {
            return;
        }
        let mut outcome = Outcome {
            revision: self.revision,
            compacted: self.compacted,
            scrubbed: self.scrubbed,
            earliest_deadline: self.next_expiry,
            ..Outcome::default()
        };
        let mut permits = Vec::with_capacity(batch.len());
        let result = self.transact(batch, sweep, rested, &mut outcome, &mut permits);
        drop(permits);
        if let Err(error) = result {
            if self.reopen_at.is_none() {
                tracing::error!(%error, "the store could not write");
            }
            for (reply, _) in outcome.writes {
                let _ = reply.send(Err(WriteError::Store(error.clone())));
            }
            for (reply, _) in outcome.compactions {
                let _ = reply.send(Err(error.clone()));
            }
            // Housekeeping that fails is tried again later, not at once.
            self.housekeeping_after = Instant::now() + 10 * SWEEP_EVERY;
            self.reopen_at.get_or_insert_with(Instant::now);
            return;
        }
        self.revision = outcome.revision;
        self.compacted = outcome.compacted;
        self.scrubbed = outcome.scrubbed;
        self.next_expiry = outcome.earliest_deadline;
        if sweep {
            self.housekeeping_after = Instant::now() + SWEEP_EVERY;
        }
        if !outcome.changes.is_empty() {
            self.fanout.publish(&outcome.changes, self.revision);
        }
        for (reply, result) in outcome.writes {
            let _ = reply.send(result);
        }
        for (reply, result) in outcome.compactions {
            let _ = reply.send(result);
        }
    }

    fn transact(
        &self,
        batch: Vec<Command>,
        sweep: bool,
        scrub: bool,
        outcome: &mut Outcome,
        permits: &mut Vec<OwnedSemaphorePermit>,
    ) -> Result<(), Error> {
        let mut waiting = Vec::with_capacity(batch.len());
        for command in batch {
            match command {
                Command::Write {
                    key,
                    expect,
                    put,
                    ttl,
                    reply,
                    permit,
                } => {
                    permits.push(permit);
                    // A placeholder, so that every writer is answered even if the transaction cannot begin.
                    outcome.writes.push((reply, Err(Error::Closed.into())));
                    waiting.push((key, expect, put, ttl));
                }
                Command::Compact { revision, reply } => {
                    let result = match revision {
                        revision if revision > self.revision => Err(Error::FutureRevision { current: self.revision }),
                        revision if revision <= outcome.compacted => Err(Error::Compacted {
                            oldest: outcome.compacted,
                        }),
                        revision => {
                            outcome.compacted = revision;
                            Ok(())
                        }
                    };
                    outcome.compactions.push((reply, result));
                }
            }
        }
        let database = self.file.database()?;
        let transaction = database.begin_write().map_err(failed)?;
        {
            let mut tables = Tables::open(&transaction)?;
            for (index, (key, expect, put, ttl)) in waiting.into_iter().enumerate() {
                outcome.writes[index].1 = tables.apply(outcome, &key, expect, put, ttl)?;
            }
            if sweep {
                tables.expire(outcome)?;
            }
            if outcome.scrubbed < outcome.compacted && (scrub || outcome.compacted != self.compacted) {
                tables.scrub(outcome)?;
            }
            if outcome.dirty {
                tables.meta.insert("revision", outcome.revision).map_err(failed)?;
            }
        }
        if outcome.dirty {
            transaction.commit().map_err(failed)
        } else {
            transaction.abort().map_err(failed)
        }
    }
}

/// Ends all watches when the writer ends, however it ends.
struct Closing(Arc<Fanout>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_millis() as u64)
}

/// The tables of one transaction.
struct Tables<'t> {
    meta: Table<'t, &'static str, u64>,
    keys: Table<'t, &'static str, Head>,
    log: Table<'t, u64, Record>,
    expiry: Table<'t, (u64, &'static str), u64>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, Error> {
        Ok(Self {
            meta: transaction.open_table(META).map_err(failed)?,
            keys: transaction.open_table(KEYS).map_err(failed)?,
            log: transaction.open_table(LOG).map_err(failed)?,
            expiry: transaction.open_table(EXPIRY).map_err(failed)?,
        })
    }

    /// One compare-and-swap. The outer error fails the whole transaction.
    fn apply(
        &mut self,
        outcome: &mut Outcome,
        key: &str,
        expect: Expect,
        put: Option<Bytes>,
        ttl: Option<Duration>,
    ) -> Result<Result<Revision, WriteError>, Error> {
        let head = self.keys.get(key).map_err(failed)?.map(|head| head.value());
        let (before, deleted, old_deadline) = head.unwrap_or((0, true, 0));
        let holds = match expect {
            Expect::Absent => deleted,
            Expect::Revision(revision) => !deleted && before == revision,
        };
        if !holds {
            let current = if deleted { None } else { entry_at(&self.log, before)? };
            return Ok(Err(Conflict {
                current,
                revision: outcome.revision,
            }
            .into()));
        }
        if deleted && put.is_none() {
            // Deleting what is not there changes nothing, as in etcd.
            return Ok(Ok(outcome.revision));
        }
        let revision = outcome.revision + 1;
        let deadline = ttl.map_or(0, |ttl| unix_ms() + ttl.as_millis() as u64);
        self.log
            .insert(revision, (key, before, put.as_deref()))
            .map_err(failed)?;
        self.keys
            .insert(key, (revision, put.is_none(), deadline))
            .map_err(failed)?;
        if old_deadline != 0 {
            self.expiry.remove((old_deadline, key)).map_err(failed)?;
        }
        if deadline != 0 {
            self.expiry.insert((deadline, key), revision).map_err(failed)?;
            outcome.earliest_deadline = Some(outcome.earliest_deadline.map_or(deadline, |at| at.min(deadline)));
        }
        outcome.revision = revision;
        outcome.dirty = true;
        outcome.changes.push(match put {
            Some(value) => Change::Put(Entry {
                key: key.into(),
                revision,
                value,
            }),
            None => Change::Delete {
                key: key.into(),
                revision,
            },
        });
        Ok(Ok(revision))
    }

    /// Deletes expired keys as anybody would.
    fn expire(&mut self, outcome: &mut Outcome) -> Result<(), Error> {
        let mut due = Vec::new();
        for item in self.expiry.range(..(unix_ms() + 1, "")).map_err(failed)?.take(SWEEP) {
            let (key, revision) = item.map_err(failed)?;
            let (deadline, key) = key.value();
            due.push((deadline, key.to_owned(), revision.value()));
        }
        for (deadline, key, revision) in due {
            // The write removes the row; one that points to a state long replaced is removed here.
            if self
                .apply(outcome, &key, Expect::Revision(revision), None, None)?
                .is_err()
            {
                self.expiry.remove((deadline, key.as_str())).map_err(failed)?;
                outcome.dirty = true;
            }
        }
        outcome.earliest_deadline = self.expiry.first().map_err(failed)?.map(|(key, _)| key.value().0);
        Ok(())
    }

    /// Removes from the log what no revision from `compacted` on shows; a part at a time.
    fn scrub(&mut self, outcome: &mut Outcome) -> Result<(), Error> {
        let until = outcome.compacted.min(outcome.scrubbed + SCRUB);
        let mut gone = Vec::new();
        for item in self.log.range(outcome.scrubbed + 1..=until).map_err(failed)? {
            let (revision, record) = item.map_err(failed)?;
            let (revision, (key, previous, value)) = (revision.value(), record.value());
            if previous != 0 {
                gone.push(previous);
            }
            if value.is_none() {
                gone.push(revision);
                if self
                    .keys
                    .get(key)
                    .map_err(failed)?
                    .is_some_and(|head| head.value().0 == revision)
                {
                    self.keys.remove(key).map_err(failed)?;
                }
            }
        }
        for revision in gone {
            self.log.remove(revision).map_err(failed)?;
        }
        self.meta.insert("compacted", outcome.compacted).map_err(failed)?;
        self.meta.insert("scrubbed", until).map_err(failed)?;
        outcome.scrubbed = until;
        outcome.dirty = true;
        Ok(())
    }
}
