//! Node ports: a bitmap in the store, shared by all replicas and by kube-apiserver.
//!
//! Contract: the key, the value (a `RangeAllocation`) and its bitmap (a big-endian number whose bit `i` is port
//! `low + i`) are kube-apiserver's. Every change is a compare-and-swap; a lost one is made again on what won. A change
//! is therefore a function of the bitmap that may run more than once.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::bytes::Bytes;
use parking_lot::Mutex;
use triptych_object::{Status, StatusResult, Value, json};
use triptych_registry::collection::storage_status;
use triptych_schema::protobuf;
use triptych_storage::{Expect, Revision, Store, Write, WriteError};

use crate::context::PortRange;
use crate::validation::bytes;

const KEY: &str = "/ranges/servicenodeports";

/// Why a port cannot be had; the texts are kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// All are taken.
    #[error("range is full")]
    Full,
    /// Somebody has it.
    #[error("provided port is already allocated")]
    Allocated,
    /// It is none of the range.
    #[error("provided port is not in the valid range. The range of valid ports is {0}-{1}")]
    NotInRange(u16, u16),
}

/// The node ports of a cluster.
pub struct NodePorts {
    store: Arc<dyn Store>,
    range: PortRange,
    known: Mutex<Option<Known>>,
}

#[derive(Clone)]
struct Known {
    revision: Option<Revision>,
    taken: Taken,
}

/// Which ports of a range are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    range: PortRange,
    bits: Vec<bool>,
}

impl Taken {
    fn none(range: PortRange) -> Taken {
        let size = usize::from(range.high - range.low) + 1;
        Taken {
            range,
            bits: vec![false; size],
        }
    }

    fn index(&self, port: i64) -> Option<usize> {
        let low = i64::from(self.range.low);
        (low..=i64::from(self.range.high))
            .contains(&port)
            .then_some((port - low) as usize)
    }

    /// Takes this port.
    pub fn take(&mut self, port: i64) -> Result<(), PortError> {
        let index = self
            .index(port)
            .ok_or(PortError::NotInRange(self.range.low, self.range.high))?;
        match std::mem::replace(&mut self.bits[index], true) {
            true => Err(PortError::Allocated),
            false => Ok(()),
        }
    }

    /// Takes any port: a random one, of the lower part of the range only when the rest is taken (KEP-3668), so that
    /// ports given by hand seldom collide.
    pub fn take_any(&mut self) -> Result<i64, PortError> {
        let size = self.bits.len();
        let lower = match size {
            0..=16 => 0,
            _ => (size / 32).clamp(16, 128),
        };
        let free = self
            .free(lower, size)
            .or_else(|| self.free(0, lower))
            .ok_or(PortError::Full)?;
        self.bits[free] = true;
        Ok(i64::from(self.range.low) + free as i64)
    }

    fn free(&self, from: usize, to: usize) -> Option<usize> {
        let span = to.checked_sub(from).filter(|s| *s > 0)?;
        let start = rand::random_range(0..span);
        (0..span).map(|i| from + (start + i) % span).find(|i| !self.bits[*i])
    }

    /// Gives a port back; none of the range is nothing to give.
    pub fn give_back(&mut self, port: i64) {
        if let Some(index) = self.index(port) {
            self.bits[index] = false;
        }
    }

    /// All that are taken.
    fn ports(&self) -> impl Iterator<Item = i64> + '_ {
        let low = i64::from(self.range.low);
        let taken = self.bits.iter().enumerate().filter(|(_, taken)| **taken);
        taken.map(move |(i, _)| low + i as i64)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0u8; self.bits.len().div_ceil(8)];
        let last = out.len() - 1;
        for (i, _) in self.bits.iter().enumerate().filter(|(_, taken)| **taken) {
            out[last - i / 8] |= 1 << (i % 8);
        }
        let leading = out.iter().take_while(|b| **b == 0).count();
        out.split_off(leading)
    }

    fn from_bytes(range: PortRange, bytes: &[u8]) -> Taken {
        let mut taken = Taken::none(range);
        for (i, byte) in bytes.iter().rev().enumerate() {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                if let Some(slot) = taken.bits.get_mut(i * 8 + bit) {
                    *slot = true;
                }
            }
        }
        taken
    }
}

impl NodePorts {
    /// The ports of `range`, kept in `store`.
    pub fn new(store: Arc<dyn Store>, range: PortRange) -> NodePorts {
        NodePorts {
            store,
            range,
            known: Mutex::new(None),
        }
    }

    /// Applies a change and keeps it, if it succeeds.
    pub async fn change<T, E: From<Box<Status>>>(
        &self,
        mut change: impl FnMut(&mut Taken) -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let known = self.known.lock().clone();
            let (known, fresh) = match known {
                Some(known) => (known, false),
                None => (self.load().await?, true),
            };
            let mut taken = known.taken.clone();
            let outcome = match change(&mut taken) {
                // what is known may be old: only what the store says refuses
                Err(_) if !fresh => {
                    *self.known.lock() = None;
                    continue;
                }
                outcome => outcome?,
            };
            if taken == known.taken {
                if fresh {
                    return Ok(outcome);
                }
                *self.known.lock() = None;
                continue;
            }
            match self.save(&taken, known.revision).await? {
                Some(revision) => {
                    *self.known.lock() = Some(Known {
                        revision: Some(revision),
                        taken,
                    });
                    return Ok(outcome);
                }
                None => *self.known.lock() = None,
            }
        }
    }

    /// What a change would do.
    pub async fn try_out<T, E: From<Box<Status>>>(
        &self,
        change: impl FnOnce(&mut Taken) -> Result<T, E>,
    ) -> Result<T, E> {
        change(&mut self.load().await?.taken)
    }

    /// Takes what services hold and gives back what is known to be lost; makes the bitmap if there is none. Answers
    /// what is taken.
    pub async fn repair(&self, held: &BTreeSet<i64>, lost: &BTreeSet<i64>) -> StatusResult<BTreeSet<i64>> {
        let known = self.load().await?;
        if known.revision.is_none() {
            // another replica may have made it by now
            let _ = self.save(&known.taken, None).await?;
        }
        self.change(|taken| {
            lost.iter().for_each(|port| taken.give_back(*port));
            for port in held {
                // one outside the range, or held twice, is its services' problem
                let _ = taken.take(*port);
            }
            Ok::<_, Box<Status>>(taken.ports().collect())
        })
        .await
    }

    async fn load(&self) -> StatusResult<Known> {
        let (entry, _) = self.store.get(KEY).await.map_err(|e| storage_status(&e))?;
        let Some(entry) = entry else {
            return Ok(Known {
                revision: None,
                taken: Taken::none(self.range),
            });
        };
        let allocation = read(&entry.value).map_err(Status::internal)?;
        let data = bytes::decode(allocation.str_at(&["data"]));
        // a range that was changed by flag begins empty and is repaired from the services
        let same = allocation.str_at(&["range"]) == self.range_text();
        let taken = if same {
            Taken::from_bytes(self.range, &data)
        } else {
            Taken::none(self.range)
        };
        Ok(Known {
            revision: Some(entry.revision),
            taken,
        })
    }

    fn range_text(&self) -> String {
        format!("{}-{}", self.range.low, self.range.high)
    }

    /// The new revision, or `None` if somebody else wrote.
    async fn save(&self, taken: &Taken, before: Option<Revision>) -> StatusResult<Option<Revision>> {
        let allocation = Value::from([
            ("kind", "RangeAllocation".into()),
            ("apiVersion", "v1".into()),
            ("metadata", Value::object()),
            ("range", self.range_text().into()),
            ("data", bytes::encode(&taken.to_bytes()).into()),
        ]);
        let write = Write {
            key: KEY,
            expect: before.map_or(Expect::Absent, Expect::Revision),
            put: Some(Bytes::from(json::to_vec(&allocation))),
            ttl: None,
        };
        match self.store.write(write).await {
            Ok(revision) => Ok(Some(revision)),
            Err(WriteError::Conflict(_)) => Ok(None),
            Err(WriteError::Store(e)) => Err(storage_status(&e)),
        }
    }
}

/// A stored `RangeAllocation`: JSON, or kube-apiserver's protobuf.
fn read(value: &Bytes) -> Result<Value, String> {
    if !value.starts_with(protobuf::MAGIC) {
        return json::from_slice(value).map_err(|e| e.message);
    }
    let envelope = protobuf::open(value).map_err(|e| e.to_string())?;
    let schema = crate::schema::types().ok_or("no schema table")?;
    let ty = crate::schema::kind_type("v1", "RangeAllocation").ok_or("RangeAllocation is in no schema text")?;
    protobuf::decode(schema, ty, envelope.raw).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: PortRange = PortRange {
        low: 30000,
        high: 32767,
    };

    #[test]
    fn the_bitmap_is_a_big_endian_number() {
        let mut taken = Taken::none(RANGE);
        assert!(taken.to_bytes().is_empty());
        taken.take(30000).unwrap();
        taken.take(30009).unwrap();
        assert_eq!(taken.to_bytes(), [2, 1]);
        assert_eq!(Taken::from_bytes(RANGE, &[2, 1]), taken);
    }

    #[test]
    fn ports_are_taken_once_and_only_of_the_range() {
        let mut taken = Taken::none(RANGE);
        assert_eq!(taken.take(30000), Ok(()));
        assert_eq!(taken.take(30000), Err(PortError::Allocated));
        assert_eq!(
            taken.take(80).unwrap_err().to_string(),
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        );
        taken.give_back(30000);
        assert_eq!(taken.take(30000), Ok(()));
    }

    #[test]
    fn any_port_comes_from_the_upper_part_until_that_is_full() {
        let mut taken = Taken::none(RANGE);
        for _ in 0..(2768 - 86) {
            assert!(taken.take_any().unwrap() >= 30086);
        }
        assert!(taken.take_any().unwrap() < 30086);
        for _ in 0..85 {
            taken.take_any().unwrap();
        }
        assert_eq!(taken.take_any(), Err(PortError::Full));
    }
}
