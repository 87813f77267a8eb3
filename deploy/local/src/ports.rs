//! Addresses for the tiers: the front door's is the user's, the inner ones are free ports of the loopback interface that
//! are kept from one start to the next.
//!
//! They are chosen before any tier starts, because each tier needs the others' addresses on its command line. They lie
//! below the range from which the system gives outgoing connections their ports: a tier that was killed must find its
//! port free again, however many connections were made meanwhile.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use crate::layout::Layout;
use crate::tier::{Instance, Tier};

/// Where free ports are looked for.
const RANGE: std::ops::Range<u16> = 20_000..30_000;
/// How many ports of the range are tried.
const ATTEMPTS: u16 = 500;

/// Why there are no addresses.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The front door's address cannot be listened on.
    #[error("cannot listen on {address} (--bind-address, --secure-port)")]
    FrontDoor {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// No free port was to be had.
    #[error("cannot find a free port")]
    Free(#[source] io::Error),
}

/// An address for each process of `replicas` per tier; `front` is the first aggregator's, port 0 standing for any.
pub fn choose(
    layout: &Layout,
    front: SocketAddr,
    replicas: usize,
) -> Result<BTreeMap<Instance, SocketAddr>, PortError> {
    // All listeners are held until every port is chosen, so that no port is chosen twice.
    let door = match front.port() {
        0 => free(front.ip()),
        _ => TcpListener::bind(front),
    }
    .map_err(|source| PortError::FrontDoor { address: front, source })?;
    let mut held = vec![(Tier::Aggregator.first(), door)];
    for tier in Tier::ALL {
        for instance in (0..replicas).map(|replica| Instance { tier, replica }) {
            if instance != Tier::Aggregator.first() {
                let ip = if tier == Tier::Aggregator {
                    front.ip()
                } else {
                    Ipv4Addr::LOCALHOST.into()
                };
                held.push((
                    instance,
                    listen(ip, remembered(layout, instance)).map_err(PortError::Free)?,
                ));
            }
        }
    }
    let address = |(instance, listener): &(Instance, TcpListener)| listener.local_addr().map(|a| (*instance, a));
    held.iter()
        .map(address)
        .collect::<io::Result<_>>()
        .map_err(PortError::Free)
}

/// Two free addresses of the loopback interface.
pub(crate) fn free_loopback() -> io::Result<[SocketAddr; 2]> {
    let (a, b) = (free(Ipv4Addr::LOCALHOST.into())?, free(Ipv4Addr::LOCALHOST.into())?);
    Ok([a.local_addr()?, b.local_addr()?])
}

fn listen(ip: IpAddr, remembered: Option<u16>) -> io::Result<TcpListener> {
    let kept = remembered.and_then(|port| TcpListener::bind((ip, port)).ok());
    kept.map_or_else(|| free(ip), Ok)
}

/// A free port, looked for from a random place on so that control planes started together rarely meet.
fn free(ip: IpAddr) -> io::Result<TcpListener> {
    let start = RandomState::new().hash_one(ip) % u64::from(RANGE.end - RANGE.start);
    let ports = RANGE.cycle().skip(usize::try_from(start).unwrap_or_default());
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in ports.take(ATTEMPTS.into()) {
        match TcpListener::bind((ip, port)) {
            Ok(listener) => return Ok(listener),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn remembered(layout: &Layout, instance: Instance) -> Option<u16> {
    let text = std::fs::read_to_string(layout.address(instance)).ok()?;
    text.trim().parse::<SocketAddr>().ok().map(|address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
        layout.create().unwrap();
        (dir, layout)
    }

    #[test]
    fn inner_ports_are_kept_while_they_are_free() {
        let (_dir, layout) = fresh();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = choose(&layout, any, 2).unwrap();
        assert_eq!(first.len(), 6);
        for (instance, address) in &first {
            std::fs::write(layout.address(*instance), format!("{address}\n")).unwrap();
        }
        let inner = |all: &BTreeMap<Instance, SocketAddr>| -> Vec<_> {
            all.iter()
                .filter(|(i, _)| i.tier != Tier::Aggregator)
                .map(|(_, a)| *a)
                .collect()
        };
        assert_eq!(inner(&choose(&layout, any, 2).unwrap()), inner(&first));
        let taken = TcpListener::bind(first[&Tier::CoreApi.first()]).unwrap();
        assert_ne!(
            choose(&layout, any, 2).unwrap()[&Tier::CoreApi.first()],
            taken.local_addr().unwrap()
        );
    }

    #[test]
    fn a_taken_front_door_is_told_by_its_flags() {
        let (_dir, layout) = fresh();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = choose(&layout, taken.local_addr().unwrap(), 1).unwrap_err().to_string();
        assert!(error.contains("--secure-port"), "{error}");
    }
}
