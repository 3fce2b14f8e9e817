//! `/metrics`, `/healthz`, `/readyz`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// Serves until the process ends.
pub(crate) async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    ready: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("--http-address: could not listen on {address}"))?;
    let readyz = move || async move {
        if ready.load(Ordering::Relaxed) {
            (StatusCode::OK, "ready\n")
        } else {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the API server has not been reached yet\n",
            )
        }
    };
    let text = [(
        "content-type",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    )];
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(move || async move { (text, metrics.text()) }));
    axum::serve(listener, router).await.context("serving HTTP")
}
