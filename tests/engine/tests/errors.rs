//! What goes wrong with a node is told apart, and nothing is done to a node that is not the expected one.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use foreshard_engine_tests::Fleet;
use foreshard_plan::cluster::Wish;
use foreshard_plan::{Action, NodeId, SlotSet};
use foreshard_store::dial::Direct;
use foreshard_store::{NodeAdmin, RedisAdmin, StoreError, Timeouts};
use foreshard_testbed::engine::{Engine, ensure as ensure_engines};
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const ONE: Wish = Wish {
    shards: 1,
    members_per_shard: 1,
};

async fn up(fleet: &Fleet) -> Result<NodeId> {
    let began = Instant::now();
    loop {
        match fleet.admin.view(fleet.address(0)).await {
            Ok(view) => return Ok(view.id),
            Err(error) => ensure!(
                began.elapsed() < Duration::from_secs(20),
                "the server did not come up: {error}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_process_that_is_gone_refuses_and_one_that_is_frozen_times_out() -> Result<()> {
    ensure_engines(&[Engine::Valkey91])?;
    let mut fleet = Fleet::start(Engine::Valkey91, ONE)?;
    up(&fleet).await?;
    fleet.signal(0, Signal::SIGSTOP)?;
    let frozen = fleet.admin.view(fleet.address(0)).await;
    ensure!(matches!(frozen, Err(StoreError::TimedOut(_))), "{frozen:?}");
    fleet.signal(0, Signal::SIGCONT)?;
    up(&fleet).await?;
    fleet.stop(0)?;
    // The first answer may be the end of the held connection; what counts is that a fresh one is refused.
    let gone = fleet.admin.view(fleet.address(0)).await;
    ensure!(gone == Err(StoreError::Refused), "{gone:?}");
    Ok(())
}

#[tokio::test]
async fn nothing_is_done_to_a_node_that_is_not_the_expected_one() -> Result<()> {
    ensure_engines(&[Engine::Valkey91])?;
    let mut fleet = Fleet::start(Engine::Valkey91, ONE)?;
    let before = up(&fleet).await?;
    fleet.restart(0)?;
    let now = up(&fleet).await?;
    ensure!(before != now, "the process kept its id without its data");
    let outcome = fleet
        .admin
        .act(fleet.address(0), &before, &Action::AddSlots(SlotSet::all()))
        .await;
    ensure!(
        outcome
            == Err(StoreError::WrongNode {
                expected: before,
                found: now.clone()
            }),
        "{outcome:?}"
    );
    let view = fleet.admin.view(fleet.address(0)).await?;
    ensure!(view.own_slots().is_empty(), "it was given slots");

    fleet
        .admin
        .act(fleet.address(0), &now, &Action::AddSlots(SlotSet::range(0, 10)))
        .await?;
    // Done twice is done once, and what has an owner is refused by the server itself.
    fleet
        .admin
        .act(fleet.address(0), &now, &Action::AddSlots(SlotSet::range(0, 10)))
        .await?;
    ensure!(
        fleet.admin.view(fleet.address(0)).await?.own_slots() == SlotSet::range(0, 10),
        "slots"
    );
    let refused = fleet
        .admin
        .act(fleet.address(0), &now, &Action::Replicate(now.clone()))
        .await;
    ensure!(matches!(refused, Err(StoreError::Rejected { .. })), "{refused:?}");
    Ok(())
}

/// Something that is no store answers at the address.
async fn answering(reply: &'static [u8]) -> Result<(RedisAdmin<Direct>, IpAddr)> {
    let listener = TcpListener::bind("127.78.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    if stream.write_all(reply).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let timeouts = Timeouts {
        connect: Duration::from_millis(500),
        command: Duration::from_millis(500),
        ..Timeouts::default()
    };
    Ok((
        RedisAdmin::new(Direct { port: address.port() }, timeouts),
        address.ip(),
    ))
}

#[tokio::test]
async fn nonsense_cut_off_answers_and_refusals_are_errors_not_panics() -> Result<()> {
    let cases: &[(&[u8], &[&str])] = &[
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", &["garbled", "broken"]),
        (b"$100\r\nhalf an answ", &["timeout"]),
        (b"$5\r\nhello\r\n$1\r\nx\r\n$1\r\ny\r\n:1\r\n", &["garbled"]),
        (
            b"-LOADING still reading\r\n-LOADING\r\n-LOADING\r\n-LOADING\r\n",
            &["loading"],
        ),
        (
            b"-NOAUTH Authentication required.\r\n-NOAUTH\r\n-NOAUTH\r\n-NOAUTH\r\n",
            &["credentials"],
        ),
        (
            b"-ERR This instance has cluster support disabled\r\n+\r\n+\r\n:0\r\n",
            &["rejected"],
        ),
    ];
    for (reply, expected) in cases {
        let (admin, at) = answering(reply).await?;
        let error = match admin.view(at).await {
            Ok(view) => anyhow::bail!("{reply:?} was taken for a view: {view:?}"),
            Err(error) => error,
        };
        let text = String::from_utf8_lossy(reply);
        ensure!(
            expected.contains(&error.category()),
            "{text:?} became {}: {error}",
            error.category()
        );
    }
    Ok(())
}
