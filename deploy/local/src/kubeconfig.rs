//! `DIR/admin.kubeconfig`: how the administrator's kubectl reaches the control plane, certificates included.

use std::io;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::files::{self, Access};
use crate::layout::Layout;

/// The URL at which a client on this machine reaches a server bound to `address`.
pub fn server_url(address: SocketAddr) -> String {
    let mut reachable = address;
    if address.ip().is_unspecified() {
        reachable.set_ip(if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    format!("https://{reachable}")
}

/// Writes the administrator's kubeconfig for the server at `url`.
pub(crate) fn write(layout: &Layout, url: &str) -> io::Result<()> {
    let read = |file: &str| std::fs::read(layout.pki(file)).map(|bytes| STANDARD.encode(bytes));
    let (ca, certificate, key) = (read("ca.crt")?, read("admin.crt")?, read("admin.key")?);
    let text = format!(
        "apiVersion: v1
kind: Config
clusters:
- name: triptych
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: triptych
  context:
    cluster: triptych
    user: kubernetes-admin
current-context: triptych
"
    );
    files::update(&layout.kubeconfig(), text.as_bytes(), Access::Private)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_bound_to_every_address_is_reached_by_loopback() {
        let url = |address: &str| address.parse().map(server_url);
        assert_eq!(url("0.0.0.0:6443"), Ok("https://127.0.0.1:6443".to_owned()));
        assert_eq!(url("[::]:6443"), Ok("https://[::1]:6443".to_owned()));
        assert_eq!(url("192.0.2.7:443"), Ok("https://192.0.2.7:443".to_owned()));
    }
}
