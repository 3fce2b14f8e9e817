//! What Prometheus is told.

use std::fmt::Write as _;

use foreshard_api::conditions::Reason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Labels of a reconcile pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Pass {
    /// The kind.
    pub(crate) kind: &'static str,
    /// `ok` or the class of the error.
    pub(crate) result: &'static str,
}

/// Labels of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Fault {
    /// The kind.
    kind: &'static str,
    /// The reason, as in conditions.
    reason: &'static str,
}

/// Labels of something done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Done {
    /// What.
    pub(crate) what: &'static str,
}

/// Labels of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StoreLabels {
    /// The kind.
    pub(crate) kind: &'static str,
    /// The namespace.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
}

/// All metrics of the operator.
pub(crate) struct Metrics {
    registry: Registry,
    /// Reconcile passes.
    pub(crate) passes: Family<Pass, Counter>,
    /// Passes that could not carry their plan out.
    faults: Family<Fault, Counter>,
    /// How long they take.
    pub(crate) seconds: Histogram,
    /// Writes to the API server, Lease renewals aside.
    pub(crate) api_writes: Family<Done, Counter>,
    /// Commands that changed a store node.
    pub(crate) store_actions: Family<Done, Counter>,
    /// 1 on the instance that acts.
    pub(crate) leader: Gauge,
    /// 1 when a store is Ready.
    pub(crate) ready: Family<StoreLabels, Gauge>,
    /// Slots served.
    pub(crate) slots: Family<StoreLabels, Gauge>,
    /// Memory of this process.
    resident: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Registry::default(),
            passes: Family::default(),
            faults: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 4.0, 8)),
            api_writes: Family::default(),
            store_actions: Family::default(),
            leader: Gauge::default(),
            ready: Family::default(),
            slots: Family::default(),
            resident: Gauge::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        self.registry.register(
            "process_resident_memory_bytes",
            "Resident memory of this process",
            self.resident.clone(),
        );
        let registry = self.registry.sub_registry_with_prefix("foreshard");
        registry.register(
            "reconciles",
            "Reconcile passes by kind and result",
            self.passes.clone(),
        );
        registry.register(
            "faults",
            "Reconcile passes that could not carry their plan out, by reason",
            self.faults.clone(),
        );
        registry.register(
            "reconcile_seconds",
            "Duration of reconcile passes",
            self.seconds.clone(),
        );
        registry.register(
            "api_writes",
            "Writes to the API server, Lease renewals aside",
            self.api_writes.clone(),
        );
        registry.register(
            "store_actions",
            "Commands that changed a store node",
            self.store_actions.clone(),
        );
        registry.register("leader", "1 on the instance that acts", self.leader.clone());
        registry.register("store_ready", "1 when a store is Ready", self.ready.clone());
        registry.register(
            "store_slots_served",
            "Slots served by a cluster",
            self.slots.clone(),
        );
        self
    }

    /// Counts a pass that could not carry its plan out.
    pub(crate) fn count_fault(&self, kind: &'static str, reason: Reason) {
        let reason = reason.as_str();
        self.faults.get_or_create(&Fault { kind, reason }).inc();
    }

    /// Forgets a store that is gone.
    pub(crate) fn forget(&self, store: &StoreLabels) {
        self.ready.remove(store);
        self.slots.remove(store);
    }

    /// The text for a scrape.
    pub(crate) fn text(&self) -> String {
        if let Some(bytes) = resident_bytes() {
            self.resident.set(bytes);
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            let _ = write!(text, "# the metrics could not be encoded");
        }
        text
    }
}

/// Resident memory as the kernel counts it.
fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
