//! For which audiences a node may ask for tokens of a pod's service account: those that the pod's volumes need, and
//! those that authorization allows.

use triptych_object::{RequestInfo, Value, field};
use triptych_registry::admission::Attributes;

use super::{NodeRestriction, Pod, no_such};
use crate::lookup::Facts;

/// What matters of a claim.
#[derive(Debug)]
pub struct PersistentVolumeClaim {
    volume: String,
}

impl Facts for PersistentVolumeClaim {
    fn of(object: &Value) -> PersistentVolumeClaim {
        PersistentVolumeClaim {
            volume: object.str_at(&["spec", "volumeName"]).to_owned(),
        }
    }
}

/// What matters of a volume.
#[derive(Debug)]
pub struct PersistentVolume {
    /// The CSI driver that it needs, or that took the place of its own kind.
    driver: String,
}

impl Facts for PersistentVolume {
    fn of(object: &Value) -> PersistentVolume {
        let spec = object.get("spec");
        PersistentVolume {
            driver: spec.and_then(driver_of).unwrap_or_default().to_owned(),
        }
    }
}

/// What matters of a CSI driver.
#[derive(Debug)]
pub struct CsiDriver {
    audiences: Vec<String>,
}

impl Facts for CsiDriver {
    fn of(object: &Value) -> CsiDriver {
        let requests = object.array_at(&["spec", "tokenRequests"]).iter();
        CsiDriver {
            audiences: requests.map(|r| r.str_at(&["audience"]).to_owned()).collect(),
        }
    }
}

/// The drivers that took the place of volumes built into Kubernetes.
const TRANSLATED: [(&str, &str); 7] = [
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "pxd.portworx.com"),
];

fn driver_of(source: &Value) -> Option<&str> {
    if let Some(csi) = source.get("csi") {
        return Some(csi.str_at(&["driver"]));
    }
    let translated = TRANSLATED.iter().find(|(kind, _)| source.get(kind).is_some());
    translated.map(|(_, driver)| *driver)
}

impl NodeRestriction {
    /// `Err` says why the node may not have a token for these audiences.
    pub(super) async fn audience(
        &self,
        attributes: &Attributes<'_>,
        pod: &Pod,
        audiences: &[Value],
    ) -> Result<(), String> {
        let audience = match audiences {
            [] => "",
            [audience] => audience.as_str().unwrap_or_default(),
            _ => return Err("node may only request 0 or 1 audiences".to_owned()),
        };
        let quoted = field::quote(audience);
        let needed = self.needs(pod, audience).await;
        if needed.map_err(|why| format!("error validating audience {quoted}: {why}"))? {
            return Ok(());
        }
        let request = RequestInfo {
            is_resource: true,
            verb: "request-serviceaccounts-token-audience".to_owned(),
            namespace: attributes.namespace.to_owned(),
            version: "v1".to_owned(),
            resource: audience.to_owned(),
            name: attributes.name.to_owned(),
            ..RequestInfo::default()
        };
        if self.permit.permit(attributes.user, &request).await.is_ok() {
            return Ok(());
        }
        let user = &attributes.user.name;
        Err(format!(
            "audience {quoted} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
        ))
    }

    /// Whether a pod has a volume that needs tokens for an audience.
    async fn needs(&self, pod: &Pod, audience: &str) -> Result<bool, String> {
        let mut problems = Vec::new();
        for volume in &pod.volumes {
            let sources = volume.array_at(&["projected", "sources"]).iter();
            let mut tokens = sources.filter_map(|source| source.get("serviceAccountToken"));
            if tokens.any(|token| token.str_at(&["audience"]) == audience) {
                return Ok(true);
            }
            match self.driver_needs(pod, volume, audience).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(why) => problems.push(why),
            }
        }
        if problems.is_empty() {
            Ok(false)
        } else {
            Err(field::aggregate(problems))
        }
    }

    async fn driver_needs(&self, pod: &Pod, volume: &Value, audience: &str) -> Result<bool, String> {
        let driver = if volume.at(&["ephemeral", "volumeClaimTemplate"]).is_some() {
            let claim = format!("{}-{}", pod.name, volume.str_at(&["name"]));
            self.driver_of_claim(&pod.namespace, &claim).await?
        } else if let Some(source) = volume.get("persistentVolumeClaim") {
            self.driver_of_claim(&pod.namespace, source.str_at(&["claimName"]))
                .await?
        } else {
            driver_of(volume).unwrap_or_default().to_owned()
        };
        if driver.is_empty() {
            return Ok(false);
        }
        match self.drivers.get("", &driver).await {
            Ok(Some(driver)) => Ok(driver.audiences.iter().any(|a| a == audience)),
            Ok(None) => Err(no_such("storage.k8s.io", "csidriver", &driver).message),
            Err(status) => Err(status.message),
        }
    }

    async fn driver_of_claim(&self, namespace: &str, name: &str) -> Result<String, String> {
        let claim = match self.claims.get(namespace, name).await {
            Ok(Some(claim)) => claim,
            Ok(None) => return Err(no_such("", "persistentvolumeclaim", name).message),
            Err(status) => return Err(status.message),
        };
        match self.volumes.get("", &claim.volume).await {
            Ok(Some(volume)) => Ok(volume.driver.clone()),
            Ok(None) => Err(no_such("", "persistentvolume", &claim.volume).message),
            Err(status) => Err(status.message),
        }
    }
}
