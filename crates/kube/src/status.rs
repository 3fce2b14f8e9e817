//! One way to write a status: the whole of it, by server-side apply, and only when it differs.

use foreshard_api::FIELD_MANAGER;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use serde::Serialize;

use crate::KubeError;

/// Writes a status. The caller has compared it with the one that is there.
pub async fn write<S: Serialize + Sync>(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
    status: &S,
) -> Result<(), KubeError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let body = serde_json::json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": { "name": name, "namespace": namespace },
        "status": status,
    });
    match api
        .patch_status(
            name,
            &PatchParams::apply(FIELD_MANAGER).force(),
            &Patch::Apply(&body),
        )
        .await
    {
        Ok(_) => Ok(()),
        // Deleted between our look and now.
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        Err(error) => Err(KubeError::new(
            format!("Writing the status of {} {namespace}/{name}", resource.kind),
            error,
        )),
    }
}
