//! Which changes wake a pass, and what becomes of passes that fail.

use std::sync::Arc;
use std::time::Instant;

use foreshard_kube::Class;
use foreshard_store::NodeAdmin;
use futures::StreamExt;
use kube::runtime::controller::{self, Action, Config, Controller};
use kube::runtime::reflector::{ObjectRef, store::Writer};
use kube::runtime::{Predicate, PredicateConfig, WatchStreamExt, predicates, watcher};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Error, KIND, key, reconcile};
use crate::cache::{Guarded, Touched};
use crate::context::Context;
use crate::metrics::{Pass, StoreLabels};

/// How many clusters are worked on at the same time.
const CONCURRENCY: u16 = 32;

/// Looks after the clusters of one scope until told to stop.
pub(crate) async fn look_after<A: NodeAdmin>(
    context: Arc<Context<A>>,
    scope: Option<String>,
    touched: Touched,
    stop: CancellationToken,
) {
    let api: Api<Guarded> = match &scope {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    };
    let writer = Writer::default();
    let reader = writer.as_reader();
    let forgetting = Arc::clone(&context);
    let objects = watcher(api, watcher::Config::default())
        .default_backoff()
        .modify(|object: &mut Guarded| object.managed_fields_mut().clear())
        .inspect(move |event| {
            if let Ok(watcher::Event::Delete(object)) = event {
                forgetting.forget(&key(object));
                let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
                forgetting.metrics.forget(&StoreLabels {
                    kind: KIND,
                    namespace,
                    name,
                });
            }
        })
        .reflect(writer)
        .applied_objects()
        // Our own status writes must not wake us.
        .predicate_filter(changed, PredicateConfig::default());
    // The children's watches run beside the controller and only hand it the names of clusters to look at.
    let filled = Arc::clone(&context);
    let (names, receiver) = futures::channel::mpsc::unbounded::<ObjectRef<Guarded>>();
    let watching = async {
        let mut touched = touched;
        while let Some(touch) = touched.next().await {
            match touch {
                Ok(cluster) => {
                    if names.unbounded_send(cluster).is_err() {
                        return;
                    }
                }
                Err(error) => warn!(%error, "A watch failed and starts again"),
            }
        }
    };
    let controlling = async {
        tokio::select! {
            () = filled.cache.filled() => {}
            () = stop.cancelled() => return,
        }
        info!(
            scope = scope.as_deref().unwrap_or("all namespaces"),
            "Began to look after clusters"
        );
        Controller::for_stream(objects, reader)
            .reconcile_on(receiver)
            .with_config(Config::default().concurrency(CONCURRENCY))
            .graceful_shutdown_on({
                let stop = stop.clone();
                async move { stop.cancelled().await }
            })
            .run(timed, on_error, context)
            .for_each(|result| async move {
                match result {
                    Err(controller::Error::QueueError(error)) => {
                        warn!(%error, "A watch failed and starts again");
                    }
                    Err(error) => debug!(%error, "A pass ended early"),
                    Ok(_) => {}
                }
            })
            .await;
    };
    tokio::select! {
        () = watching => {}
        () = controlling => {}
    }
}

/// What of an object wakes a pass: its spec, its annotations, and its deletion, but never its status.
fn changed(object: &Guarded) -> Option<u64> {
    predicates::generation
        .combine(predicates::annotations)
        .hash_property(object)
}

async fn timed<A: NodeAdmin>(object: Arc<Guarded>, context: Arc<Context<A>>) -> Result<Action, Error> {
    let began = Instant::now();
    let metrics = Arc::clone(&context.metrics);
    let result = reconcile(object, context).await;
    metrics.seconds.observe(began.elapsed().as_secs_f64());
    let result_label = result.as_ref().map_or_else(Error::category, |_| "ok");
    metrics
        .passes
        .get_or_create(&Pass {
            kind: KIND,
            result: result_label,
        })
        .inc();
    result
}

// The controller's signature hands both over by value.
#[allow(clippy::needless_pass_by_value)]
fn on_error<A: NodeAdmin>(object: Arc<Guarded>, error: &Error, context: Arc<Context<A>>) -> Action {
    let name = key(&*object);
    let (_, wait) = context.failures.count(&name);
    match error {
        Error::NotLeader(_) => return Action::await_change(),
        Error::Kube(error) if error.class() == Class::Conflict => {
            debug!(name, %error, "Wrote at the same time as another");
        }
        error => warn!(name, %error, wait_ms = wait.as_millis(), "A pass failed and is tried again"),
    }
    Action::requeue(wait)
}
