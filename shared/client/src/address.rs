//! Where another server is: URLs as flags give them, and the socket addresses behind them.

use std::net::SocketAddr;

use http::uri::{Authority, Scheme};
use rustls_pki_types::ServerName;

/// One server's URL: `https://host[:port]`, no path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Host and port as requests name them.
    pub authority: Authority,
    /// The name that the server's certificate must have.
    pub server_name: ServerName<'static>,
    host: String,
    port: u16,
}

/// Why a text is no server URL.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not a server URL: {why}")]
pub struct BadAddress {
    text: String,
    why: String,
}

impl std::str::FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why: &str| BadAddress {
            text: text.to_owned(),
            why: why.to_owned(),
        };
        let uri: http::Uri = text.parse().map_err(|e: http::uri::InvalidUri| bad(&e.to_string()))?;
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(bad("it must begin with https://"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad("it must not have a path"));
        }
        let authority = uri.authority().cloned().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it must not hold credentials"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let server_name = ServerName::try_from(host.clone()).map_err(|_| bad("its host is no name"))?;
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.host().len() == authority.as_str().len() => 443,
            None => return Err(bad("its port is no port")),
        };
        Ok(Address {
            authority,
            server_name,
            host,
            port,
        })
    }
}

impl Address {
    /// The server at `host` and `port` whose certificate is to be for `name` (a Service reached at an endpoint).
    pub fn named(host: &str, port: u16, name: &str) -> Result<Address, BadAddress> {
        let bracketed = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let mut address: Address = format!("https://{bracketed}:{port}").parse()?;
        address.server_name = ServerName::try_from(name.to_owned()).map_err(|_| BadAddress {
            text: name.to_owned(),
            why: "no server can have this name".to_owned(),
        })?;
        Ok(address)
    }

    /// The socket addresses this name has now; an IP address has itself.
    pub async fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = self.host.parse() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        Ok(tokio::net::lookup_host((self.host.as_str(), self.port))
            .await?
            .collect())
    }

    /// True if the host is a name that may get other addresses.
    pub fn is_name(&self) -> bool {
        self.host.parse::<std::net::IpAddr>().is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_others_refused() {
        let a: Address = "https://[::1]:6443".parse().unwrap();
        assert_eq!((a.host.as_str(), a.port, a.is_name()), ("::1", 6443, false));
        let a: Address = "https://core-api.kube-system.svc/".parse().unwrap();
        assert_eq!((a.port, a.is_name()), (443, true));
        for bad in [
            "http://a",
            "a:1",
            "https://a/b",
            "https://u:p@a",
            "",
            "https://",
            "https://a:99999",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
