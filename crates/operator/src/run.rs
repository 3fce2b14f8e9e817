//! The life of the process: serve HTTP, wait for the lease, look after every scope, give the lease back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use foreshard_kube::events::Teller;
use foreshard_kube::lease::Candidate;
use foreshard_store::{NodeAdmin, RedisAdmin, Timeouts};
use futures::future::join_all;
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::args::Args;
use crate::cache::{Cache, PodPlaces};
use crate::context::{Context, Failures, Said, Written};
use crate::http;
use crate::metrics::Metrics;
use crate::port_forward::Dialer;
use crate::valkey_cluster;

/// How often connections to addresses that no pod has any more are let go.
const TIDY: Duration = Duration::from_mins(1);

/// Runs until told to stop or until the lease is lost.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    let metrics = Arc::new(Metrics::new());
    let ready = Arc::new(AtomicBool::new(false));
    let serving = tokio::spawn(http::serve(
        args.http_address,
        Arc::clone(&metrics),
        Arc::clone(&ready),
    ));

    let config = Config::infer()
        .await
        .context("finding the API server: in a pod it is known, else set KUBECONFIG")?;
    let client = Client::try_from(config).context("setting up the client of the API server")?;
    let mut candidate = Candidate::new(
        client.clone(),
        &args.lease_namespace,
        &args.lease_name,
        &args.identity,
    );
    let leadership = candidate.leadership();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        identity = args.identity,
        "Started"
    );

    let work = async {
        wait_for_api(&client).await;
        ready.store(true, Ordering::Relaxed);
        candidate.acquire().await;
        metrics.leader.set(1);

        let places = Arc::new(PodPlaces::default());
        let dialer = Dialer::new(args.transport, client.clone(), Arc::clone(&places));
        let admin = Arc::new(RedisAdmin::new(dialer, Timeouts::default()));
        let scopes = args.scopes().into_iter().map(|scope| {
            let (cache, touched) = Cache::start(&client, scope.as_deref(), &places);
            let context = Context {
                client: client.clone(),
                cache,
                admin: Arc::clone(&admin),
                leadership: leadership.clone(),
                teller: Teller::new(client.clone(), args.identity.clone()),
                metrics: Arc::clone(&metrics),
                failures: Failures::default(),
                written: Written::default(),
                said: Said::default(),
            };
            valkey_cluster::look_after(Arc::new(context), scope, touched, stop.clone())
        });
        tokio::select! {
            lost = candidate.keep() => Err(anyhow::Error::from(lost)),
            _ = join_all(scopes) => Ok(()),
            () = tidy(&*admin, &places) => Ok(()),
        }
    };
    let result = tokio::select! {
        result = work => result,
        // Before the lease is ours there is nothing to finish: a signal ends the wait at once.
        () = stopped_waiting(&stop, &metrics) => Ok(()),
        served = serving => served.context("the HTTP server ended")?,
    };
    metrics.leader.set(0);
    match &result {
        Ok(()) => {
            if let Err(error) = candidate.release().await {
                warn!(%error, "Could not release the lease");
            }
            info!("Stopped");
        }
        Err(error) => warn!(%error, "Ended, because it may not act any more"),
    }
    result
}

async fn stopped_waiting(stop: &CancellationToken, metrics: &Metrics) {
    stop.cancelled().await;
    if metrics.leader.get() != 0 {
        // The scopes notice by themselves and finish what they are doing.
        std::future::pending::<()>().await;
    }
}

/// A token that is cancelled by SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("Told to stop");
        told.cancel();
    });
    Ok(stop)
}

async fn wait_for_api(client: &Client) {
    loop {
        match client.apiserver_version().await {
            Ok(version) => {
                info!(server = version.git_version, "Reached the API server");
                return;
            }
            Err(error) => warn!(%error, "Could not reach the API server"),
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn tidy<A: NodeAdmin>(admin: &A, places: &PodPlaces) {
    loop {
        tokio::time::sleep(TIDY).await;
        admin.keep_only(&|address| places.at(address).is_some());
    }
}
