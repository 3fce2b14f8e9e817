//! Runs against real servers: the tool must find a loss when there is one, and none when there is
//! none. Needs the feature `engine-tests`; the testbed makes the server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test this way"
)]

mod servers;

use std::process::Command;
use std::time::Duration;

use foreshard_load::{
    CancellationToken, ClientKind, Config, LossReason, Outcome, Policy, Report, Target, Verdict, run,
};
use servers::{Server, cluster, wait_until};

fn primary_config(server: &Server) -> Config {
    Config {
        keys: 500,
        ..Config::new(Target::Primary(server.address()))
    }
}

fn cluster_config(nodes: &[Server]) -> Config {
    let seeds = nodes.iter().map(Server::address).collect();
    Config {
        keys: 500,
        ..Config::new(Target::Cluster(seeds))
    }
}

/// Runs the load while `disturb` does its worst, then ends it. What `disturb` returns (the servers)
/// lives on until everything has been read back.
async fn disturbed<T: Send + 'static>(
    config: Config,
    disturb: impl FnOnce() -> T + Send + 'static,
) -> (Report, T) {
    let cancel = CancellationToken::new();
    let load = tokio::spawn(run(config, cancel.clone()));
    let kept = tokio::task::spawn_blocking(disturb).await.unwrap();
    cancel.cancel();
    (load.await.unwrap().unwrap(), kept)
}

fn let_load_run(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_run_is_verified() {
    let server = Server::start(&[]);
    let config = Config {
        duration: Some(Duration::from_secs(2)),
        read_ratio: 0.5,
        preload: 1000,
        ..primary_config(&server)
    };
    let report = run(config, CancellationToken::new()).await.unwrap();
    assert_eq!(report.verdict, Verdict::Verified, "{report:#?}");
    assert_eq!((report.errors_total(), report.reads.stale), (0, 0), "{report:#?}");
    assert_eq!(report.ledger.keys, 1000);
    assert_eq!(report.ledger.acknowledged, 1000 + report.writes.acknowledged);
    assert!((900..=1100).contains(&report.writes.acknowledged), "{report:#?}");
    assert!((900..=1100).contains(&report.reads.acknowledged), "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_in_the_middle_is_a_loss() {
    let server = Server::start(&[]);
    let config = primary_config(&server);
    let (report, _server) = disturbed(config, move || {
        let_load_run(0.5);
        server.command(&["FLUSHALL"]);
        let_load_run(0.2);
        server
    })
    .await;
    assert_eq!(report.verdict, Verdict::Lost, "{report:#?}");
    assert_eq!(report.outcome(Policy::default()), Outcome::Lost);
    assert!(
        report
            .ledger
            .samples
            .iter()
            .all(|sample| sample.reason == LossReason::Missing)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_with_a_persistent_log_loses_nothing() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let config = primary_config(&server);
    let (report, _server) = disturbed(config, move || {
        let_load_run(0.5);
        server.kill();
        let_load_run(0.5);
        server.start_again();
        let_load_run(0.5);
        server
    })
    .await;
    assert_eq!(report.verdict, Verdict::Verified, "{report:#?}");
    assert!(report.errors.contains_key("connection-refused"), "{report:#?}");
    assert!(report.longest_gap_ms >= 500.0, "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_come_back_proves_nothing() {
    let mut server = Server::start(&[]);
    let config = Config {
        verify_timeout: Duration::from_secs(1),
        ..primary_config(&server)
    };
    let (report, _server) = disturbed(config, move || {
        let_load_run(0.5);
        server.kill();
        let_load_run(0.3);
        server
    })
    .await;
    assert_eq!(report.verdict, Verdict::Unproven, "{report:#?}");
    assert!(report.gaps[0].open, "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over_and_confirmed_writes_survive() {
    for client in [ClientKind::Direct, ClientKind::Library] {
        let mut nodes = cluster(1);
        let mut config = cluster_config(&nodes);
        config.wait_replicas = 1;
        config.access.client = client;
        let (report, nodes) = disturbed(config, move || {
            let_load_run(1.0);
            nodes[0].kill();
            wait_until("the replica has taken over", || {
                nodes[3].text(&["INFO"]).contains("role:master")
            });
            let_load_run(2.5);
            nodes
        })
        .await;
        assert_eq!(report.ledger.lost_replicated, 0, "{report:#?}");
        assert!(report.ledger.replicated > 0, "{report:#?}");
        let gap = report.gaps.iter().find(|gap| gap.slots == "0-5460").unwrap();
        assert_eq!(gap.shard, nodes[3].address(), "{report:#?}");
        assert!(gap.ms > 500.0 && !gap.open, "{report:#?}");
        assert!(report.errors_total() > 0, "{report:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unconfirmed_writes_that_a_failover_drops_are_found() {
    let mut nodes = cluster(1);
    let mut config = cluster_config(&nodes);
    config.wait_replicas = 1;
    let (report, _nodes) = disturbed(config, move || {
        let_load_run(1.5);
        nodes[0].cut_replicas_off();
        let_load_run(1.0);
        nodes[0].kill();
        wait_until("the replica has taken over", || {
            nodes[3].text(&["INFO"]).contains("role:master")
        });
        let_load_run(1.0);
        nodes
    })
    .await;
    assert!(report.ledger.lost > 0, "{report:#?}");
    assert_eq!(report.ledger.lost_replicated, 0, "{report:#?}");
    let lenient = Policy {
        allow_unreplicated_loss: true,
        ..Policy::default()
    };
    assert_eq!(report.outcome(Policy::default()), Outcome::Lost);
    assert_eq!(report.outcome(lenient), Outcome::Passed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_on_the_move_costs_redirects_and_no_errors() {
    let nodes = cluster(0);
    let mut config = cluster_config(&nodes);
    // The keys of one slot are asked for on the source, which sends their writers on.
    config.rate = 2000.0;
    let slot = redis::from_redis_value::<u16>(nodes[0].command(&["CLUSTER", "KEYSLOT", "load:{0}"])).unwrap();
    let owner = usize::from(slot > 5460) + usize::from(slot > 10922);
    let (report, _nodes) = disturbed(config, move || {
        let (source, target) = (&nodes[owner], &nodes[(owner + 1) % 3]);
        let (source_id, target_id) = (
            source.text(&["CLUSTER", "MYID"]),
            target.text(&["CLUSTER", "MYID"]),
        );
        let slot = slot.to_string();
        target.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id]);
        source.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]);
        let port = target.port.to_string();
        let keys: Vec<String> =
            redis::from_redis_value(source.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"])).unwrap();
        let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "1000", "REPLACE", "KEYS"];
        migrate.extend(keys.iter().map(String::as_str));
        source.command(&migrate);
        let_load_run(1.0);
        for node in [target, source] {
            node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]);
        }
        let_load_run(1.0);
        nodes
    })
    .await;
    assert_eq!(report.verdict, Verdict::Verified, "{report:#?}");
    assert_eq!(report.errors_total(), 0, "{report:#?}");
    assert!(
        report.redirects.ask > 0 && report.redirects.moved > 0,
        "{report:#?}"
    );
    assert!(report.slots_moved, "{report:#?}");
}

#[test]
fn the_command_line_tells_a_loss_by_its_exit_code() {
    let server = Server::start(&[]);
    let ledger = std::env::temp_dir().join(format!("foreshard-load-{}-ledger", std::process::id()));
    let (address, file) = (server.address(), ledger.display().to_string());
    let tool = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_foreshard-load"))
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };

    let run = [
        "run",
        "--primary",
        &address,
        "--duration",
        "1s",
        "--ledger",
        &file,
        "--json",
    ];
    let (code, text) = tool(&run);
    assert_eq!(code, Some(0), "{text}");
    let report: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(report.verdict, Verdict::Verified);

    let verify = ["verify", "--primary", &address, "--ledger", &file];
    let (code, text) = tool(&verify);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.trim_end().ends_with("0 lost"), "{text}");

    server.command(&["DEL", "load:{0}"]);
    let (code, text) = tool(&verify);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("LOST: 1 of"), "{text}");
    std::fs::remove_file(ledger).unwrap();
}
