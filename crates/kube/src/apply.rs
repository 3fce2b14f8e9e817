//! One way to bring objects into being: compare what is wanted with what is there, then apply or delete what differs.
//!
//! Nothing is written when nothing differs. An object of the same name that is not ours is never touched.

use std::collections::BTreeMap;
use std::sync::Arc;

use foreshard_api::{FIELD_MANAGER, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::KubeError;
use crate::contains::contains;

/// An object as it should be.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its kind.
    pub resource: ApiResource,
    /// Its name.
    pub name: String,
    body: Value,
}

impl Wanted {
    /// Takes a typed object, owned by `owner`, and stamps it with the hash of what is asked for.
    pub fn new<K>(mut object: K, owner: &OwnerReference) -> Result<Self, serde_json::Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        object.meta_mut().owner_references = Some(vec![owner.clone()]);
        let resource = ApiResource::erase::<K>(&());
        let mut body = serde_json::to_value(&object)?;
        drop_empty(&mut body);
        let stamp = hash(&body);
        let name = object.name_any();
        object.annotations_mut().insert(labels::APPLIED.to_owned(), stamp);
        body = serde_json::to_value(&object)?;
        drop_empty(&mut body);
        if let Value::Object(fields) = &mut body {
            fields.insert("apiVersion".to_owned(), resource.api_version.clone().into());
            fields.insert("kind".to_owned(), resource.kind.clone().into());
        }
        Ok(Self { resource, name, body })
    }

    fn stamp(&self) -> Option<&str> {
        self.body
            .pointer("/metadata/annotations")?
            .get(labels::APPLIED)?
            .as_str()
    }
}

/// A stable hash of a value, short enough for an annotation.
#[must_use]
pub fn hash(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string().as_bytes());
    digest
        .iter()
        .take(8)
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Removes nulls, so that what is not asked for is not claimed.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_empty);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

/// One difference between what is wanted and what is there.
#[derive(Clone, Debug)]
pub enum Change {
    /// Nothing of the name was seen: create it, unless somebody else's object turns out to be there.
    Create(Wanted),
    /// Bring it back to what is wanted.
    Apply(Wanted),
    /// Delete one of ours that is wanted no more.
    Delete {
        /// Its kind.
        resource: ApiResource,
        /// Its name.
        name: String,
        /// Which incarnation: one made anew in the meantime is left alone.
        uid: Option<String>,
    },
    /// Somebody else's object has the name. Nothing is done about it.
    Taken {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
}

/// Compares. Pure.
#[must_use]
pub fn changes(wanted: Vec<Wanted>, live: &[Arc<DynamicObject>], owner: &OwnerReference) -> Vec<Change> {
    let key = |kind: &str, name: &str| format!("{kind}/{name}");
    let mut there: BTreeMap<String, &Arc<DynamicObject>> = BTreeMap::new();
    for object in live {
        let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
        there.insert(key(kind, &object.name_any()), object);
    }
    let mut found = Vec::new();
    for wanted in wanted {
        match there.remove(&key(&wanted.resource.kind, &wanted.name)) {
            None => found.push(Change::Create(wanted)),
            Some(object) if !is_ours(object, owner) => {
                found.push(Change::Taken {
                    kind: wanted.resource.kind,
                    name: wanted.name,
                });
            }
            Some(object) if differs(object, &wanted) => found.push(Change::Apply(wanted)),
            Some(_) => {}
        }
    }
    for object in there
        .into_values()
        .filter(|object| is_ours(object, owner) && object.metadata.deletion_timestamp.is_none())
    {
        let Some(types) = &object.types else { continue };
        if let Ok(kind) = GroupVersionKind::try_from(types) {
            let resource = ApiResource::from_gvk(&kind);
            found.push(Change::Delete {
                resource,
                name: object.name_any(),
                uid: object.uid(),
            });
        }
    }
    found
}

/// Whether an object is controlled by this owner.
#[must_use]
pub fn is_ours(object: &DynamicObject, owner: &OwnerReference) -> bool {
    object
        .owner_references()
        .iter()
        .any(|reference| reference.uid == owner.uid && reference.controller == Some(true))
}

fn differs(live: &DynamicObject, wanted: &Wanted) -> bool {
    if live.annotations().get(labels::APPLIED).map(String::as_str) != wanted.stamp() {
        return true;
    }
    serde_json::to_value(live).map_or(true, |live| !contains(&live, &wanted.body))
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out; in words.
    Done(String),
    /// Nothing was done, because an object of somebody else has the name.
    Taken {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
}

/// Carries out one change.
pub async fn carry_out(
    client: &Client,
    namespace: &str,
    change: &Change,
    owner: &OwnerReference,
) -> Result<Outcome, KubeError> {
    match change {
        Change::Create(wanted) => {
            // Our watches see only what carries our labels, and a forced apply would take over what does not.
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &wanted.resource);
            let (kind, name) = (wanted.resource.kind.clone(), wanted.name.clone());
            let there = KubeError::bounded(format!("Looking for {kind} {name}"), api.get_opt(&name)).await?;
            match there {
                Some(there) if !is_ours(&there, owner) => Ok(Outcome::Taken { kind, name }),
                _ => apply(&api, wanted).await,
            }
        }
        Change::Apply(wanted) => {
            apply(
                &Api::namespaced_with(client.clone(), namespace, &wanted.resource),
                wanted,
            )
            .await
        }
        Change::Delete { resource, name, uid } => {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
            let preconditions = Preconditions {
                uid: uid.clone(),
                resource_version: None,
            };
            let parameters = DeleteParams {
                preconditions: Some(preconditions),
                ..DeleteParams::background()
            };
            let what = format!("Deleting {} {name}", resource.kind);
            match KubeError::bounded(what, api.delete(name, &parameters)).await {
                Err(error) if error.is_not_found() => {
                    Ok(Outcome::Done(format!("found {} {name} gone", resource.kind)))
                }
                Err(error) => Err(error),
                Ok(_) => Ok(Outcome::Done(format!("deleted {} {name}", resource.kind))),
            }
        }
        Change::Taken { kind, name } => Ok(Outcome::Taken {
            kind: kind.clone(),
            name: name.clone(),
        }),
    }
}

async fn apply(api: &Api<DynamicObject>, wanted: &Wanted) -> Result<Outcome, KubeError> {
    let (kind, name) = (&wanted.resource.kind, &wanted.name);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let patch = Patch::Apply(&wanted.body);
    KubeError::bounded(
        format!("Applying {kind} {name}"),
        api.patch(name, &parameters, &patch),
    )
    .await?;
    Ok(Outcome::Done(format!("applied {kind} {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference {
            uid: uid.into(),
            controller: Some(true),
            kind: "ValkeyCluster".into(),
            name: "shop".into(),
            ..Default::default()
        }
    }

    fn config(name: &str, text: &str) -> ConfigMap {
        let data = Some([("conf".to_owned(), text.to_owned())].into());
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.into()),
                ..Default::default()
            },
            data,
            ..Default::default()
        }
    }

    fn live(wanted: &Wanted) -> Arc<DynamicObject> {
        Arc::new(serde_json::from_value(wanted.body.clone()).unwrap())
    }

    #[test]
    fn nothing_is_written_when_nothing_differs() {
        let wanted = Wanted::new(config("a", "x"), &owner("1")).unwrap();
        assert!(changes(vec![wanted.clone()], &[live(&wanted)], &owner("1")).is_empty());
    }

    #[test]
    fn new_changed_and_tampered_objects_are_applied() {
        let old = Wanted::new(config("a", "x"), &owner("1")).unwrap();
        let new = Wanted::new(config("a", "y"), &owner("1")).unwrap();
        let mut tampered = (*live(&old)).clone();
        tampered.data["data"]["conf"] = "z".into();
        let found = changes(vec![old.clone()], &[], &owner("1"));
        assert!(
            matches!(found.as_slice(), [Change::Create(wanted)] if wanted.name == "a"),
            "{found:?}"
        );
        for there in [live(&new), Arc::new(tampered)] {
            let found = changes(vec![old.clone()], &[there], &owner("1"));
            assert!(
                matches!(found.as_slice(), [Change::Apply(wanted)] if wanted.name == "a"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn an_object_of_somebody_else_is_never_touched() {
        let theirs = Wanted::new(config("a", "x"), &owner("2")).unwrap();
        let ours = Wanted::new(config("a", "x"), &owner("1")).unwrap();
        let found = changes(vec![ours], &[live(&theirs)], &owner("1"));
        assert!(matches!(found.as_slice(), [Change::Taken { .. }]), "{found:?}");
        assert!(changes(vec![], &[live(&theirs)], &owner("1")).is_empty());
    }

    #[test]
    fn what_is_wanted_no_more_is_deleted_when_ours() {
        let ours = Wanted::new(config("a", "x"), &owner("1")).unwrap();
        let found = changes(vec![], &[live(&ours)], &owner("1"));
        assert!(
            matches!(found.as_slice(), [Change::Delete { name, .. }] if name == "a"),
            "{found:?}"
        );
    }
}
