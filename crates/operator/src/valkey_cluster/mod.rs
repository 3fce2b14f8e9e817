//! `ValkeyCluster`: observe → validate → plan → check → execute → report.
//!
//! | step | file | needs a client |
//! |---|---|---|
//! | observe | `observe.rs` | yes: the watches' cache, and every store node |
//! | validate, plan, check, report | `foreshard-plan` | no |
//! | what objects should exist | `objects/` | no |
//! | execute | `execute.rs` | yes |

mod execute;
mod objects;
mod observe;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use foreshard_api::conditions::{DEGRADED, READY, Reason};
use foreshard_api::{ValkeyCluster, ValkeyClusterStatus};
use foreshard_kube::{KubeError, apply, events, status};
use foreshard_plan::check::check;
use foreshard_plan::cluster::report::{Subject, refused, report, with_fault};
use foreshard_plan::cluster::{Invalid, Wait, Wish, World, may_lose_one, plan};
use foreshard_store::NodeAdmin;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};

use crate::cache::Guarded;
use crate::context::{Context, NotLeader};
use crate::metrics::StoreLabels;

pub(crate) use watch::look_after;

const KIND: &str = "ValkeyCluster";
/// How long an object that cannot be acted upon is left alone, unless somebody changes it.
const REFUSED: Duration = Duration::from_mins(5);

/// How often in a row something that usually passes may fail before it is called a fault.
const PASSING: u32 = 3;
/// How soon to look again when the watch has not brought back what we wrote.
const CATCH_UP: Duration = Duration::from_millis(20);

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    #[error(transparent)]
    Kube(#[from] KubeError),
    #[error("an object could not be put into words: {0}")]
    Encode(#[from] serde_json::Error),
}

impl Error {
    const fn category(&self) -> &'static str {
        match self {
            Self::NotLeader(_) => "not-leader",
            Self::Kube(_) => "api",
            Self::Encode(_) => "bug",
        }
    }
}

/// One pass over one cluster.
async fn reconcile<A: NodeAdmin>(object: Arc<Guarded>, context: Arc<Context<A>>) -> Result<Action, Error> {
    context.may_act()?;
    // To the second, as it will be stored.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH);
    let cluster = match &object.0 {
        Ok(cluster) => cluster,
        Err(invalid) => return unreadable(&context, &invalid.error, &object, now).await,
    };
    if cluster.meta().deletion_timestamp.is_some() {
        // Everything we made is owned by the object, so Kubernetes removes it.
        return Ok(Action::await_change());
    }
    let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
    let before = cluster.status.clone().unwrap_or_default();
    if context.written.is_ahead_of(&key(cluster), &before) {
        return Ok(Action::requeue(CATCH_UP));
    }
    let generation = cluster.meta().generation.unwrap_or_default();
    let subject = Subject {
        name: &name,
        namespace: &namespace,
        generation,
        previous: &before.conditions,
    };

    let owner = objects::owner(cluster);
    let children = context.cache.children_of(&namespace, &name);
    let wish = match validate(cluster, &children, &owner) {
        Ok(wish) => wish,
        Err(invalid) => {
            let after = refused(subject, Reason::InvalidSpec, &invalid.to_string(), now);
            return conclude(&context, cluster, &before, after, REFUSED).await;
        }
    };
    let sets = objects::set_ids(&children, &owner);
    let observed = observe::observe(&context, cluster, &sets, &objects::templates(cluster, wish)).await;
    let world = World::new(&observed);
    let mut plan = plan(wish, &world, now);
    let wanted = objects::wanted(cluster, wish, may_lose_one(wish, &world), &owner)?;
    let changes = apply::changes(wanted, &children, &owner);
    if !changes.is_empty() {
        plan.waits.push(Wait::normal(
            Reason::WaitingForPods,
            format!("{} objects are being applied", changes.len()),
        ));
    }
    let mut after = report(subject, wish, &world, &plan, now);

    let done = match check(&plan, &world) {
        Err(violation) => Err(execute::Fault::new(Reason::PlanRefused, &violation)),
        Ok(()) => execute::execute(&context, cluster, &owner, &changes, &plan).await,
    };
    let look_again = match done {
        Ok(()) => {
            context.failures.clear(&key(cluster));
            plan.look_again
        }
        Err(fault) => {
            let (times, wait) = context.failures.count(&key(cluster));
            context.metrics.count_fault(KIND, fault.reason);
            if !fault.passing || times > PASSING {
                after = with_fault(after, subject, fault.reason, &fault.message, now);
            }
            wait
        }
    };
    conclude(&context, cluster, &before, after, look_again).await
}

/// What is asked for, if it can be acted upon.
fn validate(
    cluster: &ValkeyCluster,
    children: &[Arc<DynamicObject>],
    owner: &OwnerReference,
) -> Result<Wish, Invalid> {
    let wish = Wish::from_spec(&cluster.spec)?;
    objects::would_shrink(children, owner, wish).map_or(Ok(wish), |shrinks| Err(Invalid(shrinks)))
}

/// Writes the status if it differs, tells what changed, and says when to look again.
async fn conclude<A: NodeAdmin>(
    context: &Context<A>,
    cluster: &ValkeyCluster,
    before: &ValkeyClusterStatus,
    after: ValkeyClusterStatus,
    look_again: Duration,
) -> Result<Action, Error> {
    let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
    let ready = after
        .conditions
        .iter()
        .any(|condition| condition.type_ == READY && condition.status == "True");
    let served = after
        .slots
        .split('/')
        .next()
        .and_then(|served| served.parse().ok())
        .unwrap_or(0);
    let labels = StoreLabels {
        kind: KIND,
        namespace: namespace.clone(),
        name: name.clone(),
    };
    context.metrics.ready.get_or_create(&labels).set(ready.into());
    context.metrics.slots.get_or_create(&labels).set(served);
    if *before != after {
        context.may_act()?;
        write(context, cluster, &after).await?;
        let kinds = [(READY, "True"), (DEGRADED, "False")];
        for telling in events::transitions(&before.conditions, &after.conditions, &kinds) {
            context.teller.tell(&cluster.object_ref(&()), telling).await;
            execute::count_write(context, "event");
        }
    }
    Ok(Action::requeue(look_again))
}

async fn write<A: NodeAdmin, K: Resource>(
    context: &Context<A>,
    object: &K,
    status: &ValkeyClusterStatus,
) -> Result<(), Error> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let uid = object.uid().unwrap_or_default();
    let target = status::Target {
        resource: &resource(),
        namespace: &namespace,
        name: &name,
        uid: &uid,
    };
    status::write(&context.client, target, status).await?;
    execute::count_write(context, "status");
    context.written.note(&key(object), status.clone());
    Ok(())
}

/// An object of our kind that cannot be read: say so on it, and go on with the others.
async fn unreadable<A: NodeAdmin>(
    context: &Context<A>,
    error: &str,
    object: &Guarded,
    now: Timestamp,
) -> Result<Action, Error> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let generation = object.meta().generation.unwrap_or_default();
    let subject = Subject {
        name: &name,
        namespace: &namespace,
        generation,
        previous: &[],
    };
    let message =
        format!("The object cannot be read as a {KIND}: {error}. Mend the field or delete the object");
    let after = refused(subject, Reason::Undecodable, &message, now);
    // What it says now may be what cannot be read, so what we said last is what counts.
    if context
        .said
        .is_news(&key(object), &format!("{generation} {message}"))
    {
        write(context, object, &after).await?;
        context.metrics.count_fault(KIND, Reason::Undecodable);
        tracing::warn!(namespace, name, error, "Could not read a ValkeyCluster");
    }
    Ok(Action::await_change())
}

fn resource() -> ApiResource {
    ApiResource::erase::<ValkeyCluster>(&())
}

fn key(object: &impl Resource) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
