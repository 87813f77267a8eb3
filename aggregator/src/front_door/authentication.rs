//! This tier's part of the ConfigMap `extension-apiserver-authentication`, by which API servers behind APIServices know
//! whom to believe about users. core-api writes the other part, the client CA.
//!
//! Contract: what several aggregators say is united, so that each replica's proxies are believed while certificates are
//! rotated.

use std::path::PathBuf;

use triptych_client::Api;
use triptych_client::api::Patch;
use triptych_object::{Status, StatusResult, Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const NAME: &str = "extension-apiserver-authentication";
const CA_FILE: &str = "requestheader-client-ca-file";

/// What is published.
#[derive(Clone, Debug)]
pub struct RequestHeader {
    /// PEM file of the CAs of the proxy's certificate; read anew for every round.
    pub ca_file: PathBuf,
    /// Lists, by key.
    pub lists: Vec<(&'static str, Vec<String>)>,
}

impl RequestHeader {
    /// Writes it, unless it is there.
    pub async fn ensure(&self, core_api: &Api) -> StatusResult<()> {
        let path = format!("{CONFIG_MAPS}/{NAME}");
        let have = core_api.find(&path).await?;
        let ca = tokio::fs::read_to_string(&self.ca_file)
            .await
            .map_err(Status::internal)?;
        let data = self.data(have.as_ref().and_then(|map| map.get("data")), &ca);
        let Some(have) = have else {
            let metadata = Value::from([("name", NAME.into()), ("namespace", "kube-system".into())]);
            let map = Value::from([
                ("apiVersion", "v1".into()),
                ("kind", "ConfigMap".into()),
                ("metadata", metadata),
                ("data", data),
            ]);
            return core_api.create(CONFIG_MAPS, &map).await.map(drop);
        };
        let members = data.as_object().into_iter().flat_map(|d| d.iter());
        let told = members
            .into_iter()
            .all(|(key, value)| have.at(&["data", key]) == Some(value));
        if told {
            return Ok(());
        }
        let patch = Value::from([("data", data)]);
        core_api.patch(&path, Patch::Merge, &patch).await.map(drop)
    }

    fn data(&self, have: Option<&Value>, ca: &str) -> Value {
        let before = |key: &str| have.and_then(|h| h.get(key)).and_then(Value::as_str).unwrap_or("");
        let mut data = Value::from([(CA_FILE, united_certificates(before(CA_FILE), ca).into())]);
        for (key, values) in &self.lists {
            let known = json::from_slice(before(key).as_bytes()).unwrap_or_default();
            let known = known.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
            let mut united: Vec<&str> = known.collect();
            for value in values {
                if !united.contains(&value.as_str()) {
                    united.push(value);
                }
            }
            let united = Value::Array(united.into_iter().map(Value::from).collect());
            data.set_at(&[key], json::to_string(&united).into());
        }
        data
    }
}

/// `known`, followed by those certificates of `ours` that it lacks.
fn united_certificates(known: &str, ours: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    let mut all = known.to_owned();
    for certificate in ours.split_inclusive(END).filter(|c| c.contains("-----BEGIN")) {
        let certificate = certificate.trim();
        if !all.contains(certificate) {
            if !all.is_empty() && !all.ends_with('\n') {
                all.push('\n');
            }
            all.push_str(certificate);
            all.push('\n');
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_published_stays() {
        let pem = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n");
        let header = RequestHeader {
            ca_file: "unused".into(),
            lists: vec![("requestheader-allowed-names", vec!["b".to_owned()])],
        };
        let have = Value::from([
            (CA_FILE, pem("old").into()),
            ("requestheader-allowed-names", r#"["a"]"#.into()),
        ]);
        let data = header.data(Some(&have), &pem("new"));
        assert_eq!(data.str_at(&[CA_FILE]), pem("old") + &pem("new"));
        assert_eq!(data.str_at(&["requestheader-allowed-names"]), r#"["a","b"]"#);
        assert_eq!(header.data(Some(&data), &pem("new")), data);
    }
}
