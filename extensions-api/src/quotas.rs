//! Usage of quotas, written where quotas are kept: in core-api.

use futures_util::future::BoxFuture;
use triptych_admission::resource_quota::StatusWriter;
use triptych_client::api::Api;
use triptych_object::{StatusResult, Value};

/// The quotas of core-api.
pub struct CoreQuotas(pub Api);

impl StatusWriter for CoreQuotas {
    fn write<'a>(&'a self, namespace: &'a str, name: &'a str, quota: &'a Value) -> BoxFuture<'a, StatusResult<Value>> {
        Box::pin(async move {
            // owned by whom kube-apiserver's own writes are owned by, whichever tier makes them
            let path =
                format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}/status?fieldManager=kube-apiserver");
            self.0.update(&path, quota).await
        })
    }
}
