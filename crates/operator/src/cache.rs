//! What the watches have told us: the children of our objects, kept in memory so that a look costs no request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use foreshard_api::{ValkeyCluster, labels};
use futures::stream::{BoxStream, StreamExt, select_all};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::{DeserializeGuard, DynamicObject, TypeMeta};
use kube::discovery::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
/// A custom resource that may turn out to be unreadable.
pub(crate) type Guarded = DeserializeGuard<ValkeyCluster>;

/// The kinds of objects we make for a cluster.
pub(crate) fn child_kinds() -> Vec<ApiResource> {
    vec![
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<PodDisruptionBudget>(&()),
    ]
}

/// The children in one scope.
pub(crate) struct Cache {
    pods: Store<Pod>,
    children: Vec<Store<DynamicObject>>,
}

/// Something that changed, as the cluster it belongs to.
pub(crate) type Touched = BoxStream<'static, Result<ObjectRef<Guarded>, watcher::Error>>;

impl Cache {
    /// Starts watching. The stream drives the cache and tells which clusters are concerned.
    pub(crate) fn start(client: &Client, scope: Option<&str>, places: &PodPlaces) -> (Self, Touched) {
        let config = watcher::Config::default().labels(&labels::watched());
        let mut streams: Vec<Touched> = Vec::new();

        let writer = Writer::<Pod>::default();
        let pods = writer.as_reader();
        places.add(pods.clone());
        let api = scope.map_or_else(
            || Api::all(client.clone()),
            |namespace| Api::namespaced(client.clone(), namespace),
        );
        let stream = watcher(api, config.clone())
            .default_backoff()
            .modify(slim_pod)
            .reflect(writer)
            .touched_objects();
        streams.push(stream.filter_map(|pod| async { cluster_of(pod) }).boxed());

        let mut children = Vec::new();
        for resource in child_kinds() {
            let writer = Writer::<DynamicObject>::new(resource.clone());
            children.push(writer.as_reader());
            let types = TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            };
            let api = scope.map_or_else(
                || Api::all_with(client.clone(), &resource),
                |namespace| Api::namespaced_with(client.clone(), namespace, &resource),
            );
            let stream = watcher(api, config.clone())
                .default_backoff()
                .modify(move |object: &mut DynamicObject| {
                    // Lists leave the type out of their items.
                    object.types = Some(types.clone());
                    object.managed_fields_mut().clear();
                })
                .reflect(writer)
                .touched_objects();
            streams.push(stream.filter_map(|object| async { cluster_of(object) }).boxed());
        }
        (Self { pods, children }, select_all(streams).boxed())
    }

    /// Waits until every watch has been read once.
    pub(crate) async fn filled(&self) {
        // An error means that the stream ended, which the driver of the stream notices.
        let _ = self.pods.wait_until_ready().await;
        for store in &self.children {
            let _ = store.wait_until_ready().await;
        }
    }

    /// The pods of a cluster.
    pub(crate) fn pods_of(&self, namespace: &str, cluster: &str) -> Vec<Arc<Pod>> {
        self.pods.state_filter(|pod| belongs(pod, namespace, cluster))
    }

    /// The other objects of a cluster.
    pub(crate) fn children_of(&self, namespace: &str, cluster: &str) -> Vec<Arc<DynamicObject>> {
        self.children
            .iter()
            .flat_map(|store| store.state_filter(|object| belongs(object, namespace, cluster)))
            .collect()
    }
}

fn belongs<K: Resource>(object: &K, namespace: &str, cluster: &str) -> bool {
    object.meta().namespace.as_deref() == Some(namespace)
        && object
            .labels()
            .get(labels::CLUSTER)
            .is_some_and(|label| label == cluster)
}

fn cluster_of<K: Resource>(
    object: Result<K, watcher::Error>,
) -> Option<Result<ObjectRef<Guarded>, watcher::Error>> {
    match object {
        Err(error) => Some(Err(error)),
        Ok(object) => {
            let cluster = object.labels().get(labels::CLUSTER)?;
            let namespace = object.meta().namespace.as_deref()?;
            Some(Ok(ObjectRef::new(cluster).within(namespace)))
        }
    }
}

/// Keeps of a pod what a look needs. Pods are most of what the operator holds in memory.
fn slim_pod(pod: &mut Pod) {
    pod.managed_fields_mut().clear();
    if let Some(spec) = &mut pod.spec {
        let node_name = spec.node_name.take();
        *spec = k8s_openapi::api::core::v1::PodSpec {
            node_name,
            ..Default::default()
        };
    }
}

/// Which pod has which address.
#[derive(Default)]
pub(crate) struct PodPlaces(Mutex<Vec<Store<Pod>>>);

impl PodPlaces {
    /// The namespace and name of the pod at an address.
    pub(crate) fn at(&self, address: IpAddr) -> Option<(String, String)> {
        let address = address.to_string();
        let has = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()) == Some(&address);
        let stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pod = stores.iter().find_map(|store| store.find(has))?;
        Some((pod.namespace()?, pod.name_any()))
    }

    fn add(&self, store: Store<Pod>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(store);
    }
}
