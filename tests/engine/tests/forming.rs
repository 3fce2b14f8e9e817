//! The operator's loop forms and heals clusters of real processes of every engine.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use foreshard_engine_tests::Fleet;
use foreshard_plan::SlotSet;
use foreshard_plan::cluster::{Observed, Wish, World};
use foreshard_testbed::engine::{Engine, ensure as ensure_engines};

const WISH: Wish = Wish {
    shards: 3,
    members_per_shard: 2,
};
/// Far more than it takes, also on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// Who owns the slots that an address owned.
fn owner_of(observed: &Observed, slots: &SlotSet) -> Option<u32> {
    let index = observed
        .members
        .iter()
        .position(|member| member.view.as_ref().is_ok_and(|view| view.own_slots() == *slots))?;
    u32::try_from(index).ok()
}

fn whole(observed: &Observed) -> Result<()> {
    let world = World::new(observed);
    ensure!(world.served() == SlotSet::all(), "served: {}", world.served());
    ensure!(
        world.seen().len() == 6 && world.unsettled().next().is_none(),
        "not all members agree"
    );
    ensure!(
        world
            .seen()
            .iter()
            .all(|seen| seen.view.is_primary() || seen.view.in_sync()),
        "a replica is behind"
    );
    Ok(())
}

async fn forms_and_heals(engine: Engine) -> Result<()> {
    ensure_engines(&[engine])?;
    let mut fleet = Fleet::start(engine, WISH)?;
    let formed = fleet.settle(LIMIT).await.context("forming")?;
    whole(&formed)?;

    // A primary's process ends and comes back empty at the same address before the node timeout: its replica, which
    // has the data, must own the slots afterwards, and the newcomer must follow it.
    let slots = formed
        .members
        .iter()
        .filter_map(|member| member.view.as_ref().ok())
        .map(foreshard_plan::NodeView::own_slots);
    let slots = slots
        .into_iter()
        .find(|slots| !slots.is_empty())
        .context("nobody owns slots")?;
    let primary = owner_of(&formed, &slots).context("no owner")?;
    fleet.restart(primary)?;
    let healed = fleet.settle(LIMIT).await.context("healing")?;
    whole(&healed)?;
    ensure!(
        owner_of(&healed, &slots) == Some(primary ^ 1),
        "the replica did not take over: {healed:#?}"
    );

    // Nothing is left to do, and stays so.
    ensure!(fleet.pass().await?.is_done(), "a whole cluster has a plan");
    Ok(())
}

#[tokio::test]
async fn valkey_9_1_forms_and_heals() -> Result<()> {
    forms_and_heals(Engine::Valkey91).await
}

#[tokio::test]
async fn valkey_8_1_forms_and_heals() -> Result<()> {
    forms_and_heals(Engine::Valkey81).await
}

#[tokio::test]
async fn redis_7_0_forms_and_heals() -> Result<()> {
    forms_and_heals(Engine::Redis70).await
}

#[tokio::test]
async fn redis_8_0_forms_and_heals() -> Result<()> {
    forms_and_heals(Engine::Redis80).await
}
