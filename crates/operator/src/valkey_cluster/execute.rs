//! Carrying a plan out. Objects first, then commands to store nodes, those to different nodes at the same time.

use std::collections::BTreeMap;
use std::time::Duration;

use foreshard_api::ValkeyCluster;
use foreshard_api::conditions::Reason;
use foreshard_kube::Class;
use foreshard_kube::apply::{Change, Outcome, carry_out};
use foreshard_kube::events::Telling;
use foreshard_plan::cluster::Plan;
use foreshard_plan::{Action, Step};
use foreshard_store::{NodeAdmin, StoreError};
use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::context::Context;
use crate::metrics::Done;

/// How long a step may take. It must be over before another instance may begin to act.
const ACT: Duration = Duration::from_secs(4);

/// What stopped a plan.
#[derive(Debug)]
pub(super) struct Fault {
    /// The class of it.
    pub(super) reason: Reason,
    /// What happened, for a person.
    pub(super) message: String,
    /// Whether it usually passes by itself: the world moved while we acted, or somebody did not answer.
    pub(super) passing: bool,
}

impl Fault {
    pub(super) fn new(reason: Reason, what: impl std::fmt::Display) -> Self {
        Self {
            reason,
            message: format!("{what}"),
            passing: false,
        }
    }

    fn passing(self, passing: bool) -> Self {
        Self { passing, ..self }
    }
}

/// Carries out what differs and what is planned. Stops when an object cannot be made, because commands to nodes may
/// stand on it; a command that fails does not stop those to other nodes.
pub(super) async fn execute<A: NodeAdmin>(
    context: &Context<A>,
    cluster: &ValkeyCluster,
    owner: &OwnerReference,
    changes: &[Change],
    plan: &Plan,
) -> Result<(), Fault> {
    // Pods need the configuration and their Service from the first moment: a mount that fails is tried again only
    // after a second.
    let (pods, rest): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|change| makes_pods(change));
    for group in [rest, pods] {
        let work = group
            .into_iter()
            .map(|change| one_change(context, cluster, owner, change));
        join_all(work).await.into_iter().collect::<Result<(), Fault>>()?;
    }

    let mut per_node: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
    for step in &plan.steps {
        per_node.entry(&step.pod).or_default().push(step);
    }
    let work = per_node
        .into_values()
        .map(|steps| in_order(context, cluster, steps));
    join_all(work).await.into_iter().collect()
}

fn makes_pods(change: &Change) -> bool {
    matches!(change, Change::Create(wanted) | Change::Apply(wanted) if wanted.resource.kind == "StatefulSet")
}

async fn one_change<A: NodeAdmin>(
    context: &Context<A>,
    cluster: &ValkeyCluster,
    owner: &OwnerReference,
    change: &Change,
) -> Result<(), Fault> {
    let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
    context
        .may_act()
        .map_err(|error| Fault::new(Reason::StepFailed, error))?;
    match carry_out(&context.client, &namespace, change, owner).await {
        Ok(Outcome::Done(done)) => {
            count_write(context, "object");
            info!(namespace, name, done, "Changed an object");
            Ok(())
        }
        Ok(Outcome::Taken { kind, name }) => {
            let what = format!(
                "{kind} {name} exists and is not this cluster's: rename the cluster or remove the object"
            );
            Err(Fault::new(Reason::NameTaken, what))
        }
        Err(error) => {
            let passing = error.class() != Class::Refused;
            Err(Fault::new(Reason::StepFailed, &error).passing(passing))
        }
    }
}

async fn in_order<A: NodeAdmin>(
    context: &Context<A>,
    cluster: &ValkeyCluster,
    steps: Vec<&Step>,
) -> Result<(), Fault> {
    let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
    for step in steps {
        context
            .may_act()
            .map_err(|error| Fault::new(Reason::StepFailed, error))?;
        let what = kind_of(&step.action);
        context.metrics.store_actions.get_or_create(&Done { what }).inc();
        let acted = timeout(ACT, context.admin.act(step.ip, &step.id, &step.action)).await;
        match acted.unwrap_or_else(|_| Err(StoreError::TimedOut(ACT.as_millis()))) {
            Ok(()) => {
                info!(namespace, name, step = %step, "Did a step");
                if let Some(telling) = worth_telling(step) {
                    context.teller.tell(&cluster.object_ref(&()), telling).await;
                    count_write(context, "event");
                }
            }
            Err(error) => {
                warn!(namespace, name, step = %step, %error, "A step failed");
                let fault = Fault::new(Reason::StepFailed, format!("{step}: {error}"));
                return Err(fault.passing(error.is_passing()));
            }
        }
    }
    Ok(())
}

/// Counts a write to the API server.
pub(super) fn count_write<A>(context: &Context<A>, what: &'static str) {
    context.metrics.api_writes.get_or_create(&Done { what }).inc();
}

const fn kind_of(action: &Action) -> &'static str {
    match action {
        Action::SetConfigEpoch(_) => "set-config-epoch",
        Action::Meet { .. } => "meet",
        Action::AddSlots(_) => "add-slots",
        Action::Replicate(_) => "replicate",
        Action::FailoverForce => "failover-force",
        Action::Forget(_) => "forget",
        _ => "other",
    }
}

/// The steps that a person wants to find again later.
fn worth_telling(step: &Step) -> Option<Telling> {
    let (pod, because) = (&step.pod, &step.reason);
    let (reason, warning, note) = match &step.action {
        Action::AddSlots(slots) => (
            "SlotsAssigned",
            false,
            format!("Pod {pod} was given slots {slots}: {because}"),
        ),
        Action::FailoverForce => ("Promoted", true, format!("Pod {pod} was promoted: {because}")),
        _ => return None,
    };
    Some(Telling {
        warning,
        reason: reason.to_owned(),
        action: "Reconcile".to_owned(),
        note,
    })
}
