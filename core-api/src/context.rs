//! What the code of kinds may use besides the objects at hand: other collections, and the cluster's settings.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use triptych_registry::catalogue::Collections;
use triptych_registry::collection::Collection;

/// Handed to every group's `register`.
#[derive(Clone)]
pub struct Context {
    /// The stored objects of all resources of this tier.
    pub collections: Arc<Collections>,
    /// Service cluster IPs.
    pub cluster_ips: ClusterIpRange,
    /// Service node ports.
    pub node_ports: PortRange,
}

impl Default for Context {
    /// Without objects: for tests of what needs none.
    fn default() -> Context {
        let range = Cidr {
            address: IpAddr::from([10, 0, 0, 0]),
            prefix: 24,
        };
        Context {
            collections: Arc::default(),
            cluster_ips: ClusterIpRange(vec![range]),
            node_ports: PortRange {
                low: 30000,
                high: 32767,
            },
        }
    }
}

impl Context {
    /// The stored objects of a resource.
    pub fn collection(&self, group: &str, resource: &str) -> Option<&Arc<Collection>> {
        self.collections.get(group, resource)
    }
}

/// `--service-cluster-ip-range`: one CIDR, or one of each IP family, the first being the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterIpRange(pub Vec<Cidr>);

/// An address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// Its first address.
    pub address: IpAddr,
    /// How many leading bits are fixed.
    pub prefix: u8,
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Cidr, String> {
        let bad = || format!("{text:?} is not a CIDR such as 10.0.0.0/24");
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix > bits {
            return Err(bad());
        }
        let host_bits = match address {
            IpAddr::V4(a) => u64::from(u32::from(a)) & ((1u64 << (32 - prefix)) - 1) != 0,
            IpAddr::V6(a) => prefix < 128 && u128::from(a) & (u128::MAX >> prefix) != 0,
        };
        if host_bits {
            return Err(format!("{text:?} has bits set beyond its prefix"));
        }
        Ok(Cidr { address, prefix })
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for ClusterIpRange {
    type Err = String;

    fn from_str(text: &str) -> Result<ClusterIpRange, String> {
        let ranges = text.split(',').map(str::parse).collect::<Result<Vec<Cidr>, String>>()?;
        match ranges.as_slice() {
            [_] => Ok(ClusterIpRange(ranges)),
            [a, b] if a.address.is_ipv4() != b.address.is_ipv4() => Ok(ClusterIpRange(ranges)),
            [_, _] => Err("two ranges must be of different IP families".into()),
            _ => Err("more than two ranges".into()),
        }
    }
}

/// `--service-node-port-range`, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// Lowest port.
    pub low: u16,
    /// Highest port.
    pub high: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let bad = || format!("{text:?} is not a port range such as 30000-32767");
        let (low, high) = text.split_once('-').ok_or_else(bad)?;
        let (low, high) = (low.parse().map_err(|_| bad())?, high.parse().map_err(|_| bad())?);
        if low == 0 || low > high {
            return Err(bad());
        }
        Ok(PortRange { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_bad_ones_refused() {
        assert!("10.0.0.0/24,fd00::/108".parse::<ClusterIpRange>().is_ok());
        for bad in ["", "10.0.0.1/24", "10.0.0.0/33", "10.0.0.0/24,10.1.0.0/24", "x/8"] {
            assert!(bad.parse::<ClusterIpRange>().is_err(), "{bad}");
        }
        assert_eq!(
            "30000-32767".parse(),
            Ok(PortRange {
                low: 30000,
                high: 32767
            })
        );
        assert!("2-1".parse::<PortRange>().is_err());
    }
}
