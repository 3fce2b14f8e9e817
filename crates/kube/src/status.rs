//! One way to write a status: the whole of it, by server-side apply, and only when it differs.

use foreshard_api::FIELD_MANAGER;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use serde::Serialize;

use crate::KubeError;

/// Which object a status is written to.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its kind.
    pub resource: &'a ApiResource,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Which incarnation: one made anew in the meantime is not given the status of the one before.
    pub uid: &'a str,
}

/// Writes a status. The caller has compared it with the one that is there.
pub async fn write<S: Serialize + Sync>(
    client: &Client,
    target: Target<'_>,
    status: &S,
) -> Result<(), KubeError> {
    let Target {
        resource,
        namespace,
        name,
        uid,
    } = target;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let body = serde_json::json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": { "name": name, "namespace": namespace, "uid": uid },
        "status": status,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let patch = Patch::Apply(&body);
    let what = format!("Writing the status of {} {namespace}/{name}", resource.kind);
    match KubeError::bounded(what, api.patch_status(name, &parameters, &patch)).await {
        Ok(_) => Ok(()),
        // Deleted between our look and now.
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
