//! Tables of situations, and histories in the small world that end when nothing is left to do.

mod small;

use proptest::prelude::*;

use self::small::{Small, at, check, id, plan};
use super::report::{Subject, report};
use super::*;
use crate::action::Action;
use crate::node::Following;
use crate::slots::SlotSet;

const WISH: Wish = Wish {
    shards: 3,
    members_per_shard: 2,
};

fn whole(small: &Small, wish: Wish) {
    let observed = small.observe(wish);
    let world = World::new(&observed);
    assert_eq!(world.served(), SlotSet::all());
    for shard in 0..wish.shards {
        let owners: Vec<_> = world
            .seen_in(shard)
            .filter(|seen| !seen.view.own_slots().is_empty())
            .collect();
        assert_eq!(owners.len(), 1, "shard {shard}");
        assert!(world.seen_in(shard).all(|seen| {
            seen.view.id == owners[0].view.id || seen.view.primary() == Some(&owners[0].view.id)
        }));
    }
}

/// A whole cluster, the position of the primary of shard 0 and of its replica.
fn formed() -> (Small, usize, usize) {
    let mut small = Small::new(WISH);
    small.settle(WISH, |steps| steps);
    let primary = usize::from(small.pods[0].as_ref().unwrap().slots.is_empty());
    (small, primary, primary ^ 1)
}

#[test]
fn a_new_cluster_forms_and_then_nothing_is_left_to_do() {
    let mut small = Small::new(WISH);
    small.settle(WISH, |steps| steps);
    whole(&small, WISH);
    let again = plan(WISH, &small.observe(WISH), at(2));
    assert!(again.is_done() && again.look_again == CALM);
}

#[test]
fn primaries_spread_over_nodes() {
    let mut small = Small::new(WISH);
    small.settle(WISH, |steps| steps);
    let observed = small.observe(WISH);
    let world = World::new(&observed);
    let on = |node: &str| {
        world
            .seen()
            .iter()
            .filter(|seen| seen.view.is_primary() && seen.member.node == node)
            .count()
    };
    assert_eq!(
        (on("node-0").max(on("node-1")), on("node-0").min(on("node-1"))),
        (2, 1)
    );
}

#[test]
fn nothing_begins_before_all_pods_are_there() {
    let mut small = Small::new(WISH);
    small.pods[5] = None;
    let mut observed = small.observe(WISH);
    observed.members[5].started = false;
    let first = plan(WISH, &observed, at(1));
    assert!(first.steps.is_empty());
    assert_eq!(first.waits[0].reason, Reason::WaitingForPods);
    // A pod that never starts does not hold the rest up for ever, one that may hold data does.
    assert!(!plan(WISH, &observed, at(60)).steps.is_empty());
    observed.members[5].started = true;
    assert!(plan(WISH, &observed, at(60)).steps.is_empty());
}

#[test]
fn a_process_that_comes_back_empty_is_not_followed_and_its_replica_takes_over() {
    let (mut small, primary, replica) = formed();
    small.restart(primary);
    small.settle(WISH, |steps| steps);
    whole(&small, WISH);
    assert!(
        !small.pods[replica].as_ref().unwrap().slots.is_empty(),
        "the replica, which has the data, owns the slots"
    );
    assert!(
        small.pods.iter().flatten().all(|node| node.knows.len() == 5),
        "the dead id is forgotten"
    );
}

#[test]
fn a_silent_primary_is_left_to_the_engine() {
    let (mut small, primary, _) = formed();
    let silent = small.pods[primary].take().unwrap();
    small.dead.push(silent);
    let plan = plan(WISH, &small.observe(WISH), at(100));
    assert!(plan.steps.is_empty(), "{plan:#?}");
    assert!(
        plan.waits
            .iter()
            .any(|wait| wait.fault && wait.message.contains("waiting for the election"))
    );
}

#[test]
fn the_slots_of_a_lost_shard_are_not_given_away() {
    let mut small = Small::new(WISH);
    small.settle(WISH, |steps| steps);
    small.restart(0);
    small.restart(1);
    for _ in 0..10 {
        let observed = small.observe(WISH);
        let plan = plan(WISH, &observed, at(100));
        assert!(
            !plan
                .steps
                .iter()
                .any(|step| matches!(step.action, Action::AddSlots(_) | Action::Forget(_))),
            "{plan:#?}"
        );
        plan.steps.iter().for_each(|step| small.act(step));
    }
    let status = describe(&small.observe(WISH));
    assert!(
        status.message.contains("their data is lost"),
        "{}",
        status.message
    );
    assert_eq!(status.phase, Some(foreshard_api::valkey_cluster::Phase::Degraded));
    assert_eq!(
        status
            .conditions
            .iter()
            .find(|c| c.type_ == "SlotsCovered")
            .unwrap()
            .status,
        "False"
    );
}

#[test]
fn keys_without_slots_are_never_thrown_away() {
    let mut small = Small::new(WISH);
    small.settle(WISH, |steps| steps);
    let replica = small
        .pods
        .iter()
        .position(|node| node.as_ref().is_some_and(|node| node.primary.is_some()))
        .unwrap();
    small.restart(replica);
    small.pods[replica].as_mut().unwrap().keys = 7;
    for _ in 0..10 {
        let plan = plan(WISH, &small.observe(WISH), at(100));
        assert!(
            !plan
                .steps
                .iter()
                .any(|step| matches!(step.action, Action::Replicate(_))),
            "{plan:#?}"
        );
        plan.steps.iter().for_each(|step| small.act(step));
    }
}

#[test]
fn a_plan_that_breaks_a_rule_is_refused() {
    let mut small = Small::new(WISH);
    small.settle(WISH, |steps| steps);
    let observed = small.observe(WISH);
    let world = World::new(&observed);
    let primary = world
        .seen()
        .iter()
        .find(|seen| !seen.view.own_slots().is_empty())
        .unwrap();
    let replica = world
        .seen()
        .iter()
        .find(|seen| seen.view.primary() == Some(&primary.view.id))
        .unwrap();
    let refused = [
        primary.step(Action::Replicate(replica.view.id.clone()), ""),
        replica.step(Action::AddSlots(SlotSet::range(0, 1)), ""),
        replica.step(Action::Replicate(replica.view.id.clone()), ""),
        replica.step(Action::Forget(primary.view.id.clone()), ""),
        primary.step(Action::FailoverForce, ""),
        primary.step(Action::SetConfigEpoch(9), ""),
        primary.step(
            Action::Meet {
                ip: "10.9.9.9".parse().unwrap(),
                id: id(77),
            },
            "",
        ),
        replica.step(Action::FailoverForce, ""),
        Step {
            id: id(999),
            ..primary.step(Action::FailoverForce, "")
        },
    ];
    for step in refused {
        let plan = Plan {
            steps: vec![step],
            waits: Vec::new(),
            look_again: SOON,
        };
        assert!(check(&plan, &observed).is_err(), "{plan:?}");
    }
}

fn describe(observed: &Observed) -> foreshard_api::ValkeyClusterStatus {
    let subject = Subject {
        name: "shop",
        namespace: "default",
        generation: 3,
        previous: &[],
    };
    report(
        subject,
        WISH,
        &World::new(observed),
        &plan(WISH, observed, at(1)),
        at(1),
    )
}

#[test]
fn a_healthy_cluster_reads_like_this() {
    let mut small = Small::new(WISH);
    small.settle(WISH, |steps| steps);
    let status = describe(&small.observe(WISH));
    let conditions: Vec<String> = status
        .conditions
        .iter()
        .map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect();
    insta::assert_snapshot!(format!("{:?} {} {} {}\n{}", status.phase.unwrap(), status.members, status.slots, status.endpoint, conditions.join("\n")), @r"
    Running 6/6 16384/16384 shop.default.svc:6379
    Ready=True AsAsked: All 3 shards serve with 6 members
    Progressing=False AsAsked: All 3 shards serve with 6 members
    Degraded=False AsAsked: Nothing is wrong
    Formed=True AsAsked: 6 of 6 members answer
    SlotsCovered=True AsAsked: 16384 of 16384 slots are served
    ReplicasInSync=True AsAsked: Every replica follows its primary
    UpToDate=True AsAsked: Every pod runs what the spec asks for
    ");
}

#[test]
fn a_pod_that_cannot_start_is_named_with_its_reason() {
    let small = Small::new(WISH);
    let mut observed = small.observe(WISH);
    observed.members[2].view = Err("it has no address yet".into());
    observed.members[2].started = false;
    observed.members[2].trouble = Some("ErrImagePull (image nope:1): not found".into());
    let status = describe(&observed);
    assert_eq!(
        status.message,
        "Pod shop-1-0: ErrImagePull (image nope:1): not found"
    );
    let degraded = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Degraded")
        .unwrap();
    assert_eq!(
        (degraded.status.as_str(), degraded.reason.as_str()),
        ("True", "PodFailing")
    );
}

#[test]
fn a_spec_that_cannot_work_is_refused_with_the_field_named() {
    let spec = |shards, replicas, line: &str| foreshard_api::ValkeyClusterSpec {
        image: "x".into(),
        shards,
        replicas_per_shard: replicas,
        resources: k8s_openapi::api::core::v1::ResourceRequirements::default(),
        config: [(line.to_owned(), "1".to_owned())].into(),
    };
    for (bad, field) in [
        (spec(2, 1, "hz"), "spec.shards"),
        (spec(3, 9, "hz"), "spec.replicasPerShard"),
        (spec(100, 5, "hz"), "over 500 pods"),
        (spec(3, 1, "port"), "spec.config.port"),
    ] {
        let message = Wish::from_spec(&bad).unwrap_err().to_string();
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(Wish::from_spec(&spec(3, 1, "hz")).unwrap(), WISH);
}

#[test]
fn a_silent_member_of_another_shard_does_not_hold_up_a_promotion() {
    let (mut small, primary, replica) = formed();
    small.restart(primary);
    let mut observed = small.observe(WISH);
    observed.members[4].view = Err("no answer".into());
    let plan = plan(WISH, &observed, at(100));
    check(&plan, &observed).unwrap();
    let promoted: Vec<&str> = plan
        .steps
        .iter()
        .filter(|s| s.action == Action::FailoverForce)
        .map(|s| s.pod.as_str())
        .collect();
    assert_eq!(promoted, [observed.members[replica].pod.as_str()], "{plan:#?}");
}

#[test]
fn a_replica_whose_link_is_up_is_proof_that_its_primary_lives() {
    let (mut small, primary, replica) = formed();
    small.restart(primary);
    let mut observed = small.observe(WISH);
    observed.members[replica].view.as_mut().unwrap().follows = Some(Following {
        link_up: true,
        syncing: false,
    });
    let plan = plan(WISH, &observed, at(100));
    assert!(
        !plan.steps.iter().any(|step| step.action == Action::FailoverForce),
        "{plan:#?}"
    );
}

#[test]
fn one_promotion_at_a_time_and_none_without_a_majority() {
    let wish = Wish {
        shards: 5,
        members_per_shard: 2,
    };
    let mut small = Small::new(wish);
    small.settle(wish, |steps| steps);
    let primaries: Vec<usize> = (0..10)
        .filter(|pod| !small.pods[*pod].as_ref().unwrap().slots.is_empty())
        .collect();
    let count = |small: &Small| {
        let plan = plan(wish, &small.observe(wish), at(100));
        plan.steps
            .iter()
            .filter(|step| step.action == Action::FailoverForce)
            .count()
    };
    small.restart(primaries[0]);
    small.restart(primaries[1]);
    assert_eq!(count(&small), 1);
    small.restart(primaries[2]);
    assert_eq!(count(&small), 0);
    let plan = plan(wish, &small.observe(wish), at(100));
    assert!(
        plan.waits
            .iter()
            .any(|wait| wait.fault && wait.message.contains("cluster failover takeover")),
        "{plan:#?}"
    );
}

#[test]
fn of_two_that_claim_the_same_slots_the_later_vote_wins() {
    let wish = Wish {
        shards: 3,
        members_per_shard: 3,
    };
    let mut small = Small::new(wish);
    small.settle(wish, |steps| steps);
    let old = (0..3)
        .find(|pod| !small.pods[*pod].as_ref().unwrap().slots.is_empty())
        .unwrap();
    let new = (old + 1) % 3;
    let third = (old + 2) % 3;
    let slots = small.pods[old].as_ref().unwrap().slots.clone();
    let elected = small.pods[new].as_mut().unwrap();
    (elected.slots, elected.primary, elected.epoch) = (slots, None, 99);
    let elected = elected.id;
    small.pods[third].as_mut().unwrap().primary = Some(elected);
    let observed = small.observe(wish);
    let plan = plan(wish, &observed, at(100));
    assert!(
        !plan
            .steps
            .iter()
            .any(|step| matches!(step.action, Action::Replicate(_))),
        "{plan:#?}"
    );
    let world = World::new(&observed);
    let voted_out = world.seen()[old].view.id.clone();
    let wrong = world.seen()[third].step(Action::Replicate(voted_out), "");
    let wrong = Plan {
        steps: vec![wrong],
        waits: Vec::new(),
        look_again: SOON,
    };
    assert!(check(&wrong, &observed).is_err());
}

#[test]
fn a_member_may_be_taken_away_only_while_all_copies_are_in_sync() {
    let (mut small, primary, replica) = formed();
    let mut observed = small.observe(WISH);
    assert!(may_lose_one(WISH, &World::new(&observed)));
    observed.members[replica].view.as_mut().unwrap().follows = Some(Following {
        link_up: true,
        syncing: true,
    });
    assert!(!may_lose_one(WISH, &World::new(&observed)));
    small.restart(primary);
    assert!(!may_lose_one(WISH, &World::new(&small.observe(WISH))));
    let single = Wish {
        shards: 6,
        members_per_shard: 1,
    };
    let mut small = Small::new(single);
    small.settle(single, |steps| steps);
    assert!(!may_lose_one(single, &World::new(&small.observe(single))));
}

#[test]
fn newcomers_are_not_introduced_to_those_who_are_going() {
    let (mut small, ..) = formed();
    small.restart(0);
    let mut observed = small.observe(WISH);
    for member in &mut observed.members[1..] {
        member.terminating = true;
    }
    let plan = plan(WISH, &observed, at(100));
    assert!(
        !plan
            .steps
            .iter()
            .any(|step| matches!(step.action, Action::Meet { .. })),
        "{plan:#?}"
    );
}

#[test]
fn a_chain_of_replicas_is_straightened_from_its_end() {
    let wish = Wish {
        shards: 3,
        members_per_shard: 3,
    };
    let mut small = Small::new(wish);
    small.settle(wish, |steps| steps);
    let replicas: Vec<usize> = (0..3)
        .filter(|pod| small.pods[*pod].as_ref().unwrap().slots.is_empty())
        .collect();
    let middle = small.pods[replicas[0]].as_ref().unwrap().id;
    small.pods[replicas[1]].as_mut().unwrap().primary = Some(middle);
    // The middle one has lost its way, too.
    small.pods[replicas[0]].as_mut().unwrap().primary = small.pods[3].as_ref().map(|node| node.id);
    small.settle(wish, |steps| steps);
    whole(&small, wish);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "how long it takes is what is tested")]
fn five_hundred_members_are_planned_for_in_a_moment() {
    let wish = Wish {
        shards: 100,
        members_per_shard: 5,
    };
    let mut small = Small::new(wish);
    for number in 0..100 {
        let [primary, replicas @ ..] = &mut small.pods[number * 5..number * 5 + 5] else {
            panic!("five members")
        };
        let primary = primary.as_mut().unwrap();
        let first = u16::try_from(number * 16384 / 100).unwrap();
        let last = u16::try_from((number + 1) * 16384 / 100 - 1).unwrap();
        (primary.slots, primary.epoch) = (SlotSet::range(first, last), number as u64 + 1);
        replicas
            .iter_mut()
            .flatten()
            .for_each(|node| node.primary = Some(primary.id));
    }
    let everybody: Vec<u32> = small.pods.iter().flatten().map(|node| node.id).collect();
    for node in small.pods.iter_mut().flatten() {
        node.knows = everybody.iter().copied().filter(|id| *id != node.id).collect();
    }
    // The dead one is known to all, and is forgotten by all.
    let mut dead = small.fresh();
    dead.knows.clear();
    small
        .pods
        .iter_mut()
        .flatten()
        .for_each(|node| node.knows.push(dead.id));
    small.dead.push(dead);
    let observed = small.observe(wish);
    let began = std::time::Instant::now();
    let plan = plan(wish, &observed, at(100));
    check(&plan, &observed).unwrap();
    let subject = Subject {
        name: "shop",
        namespace: "default",
        generation: 1,
        previous: &[],
    };
    let status = report(subject, wish, &World::new(&observed), &plan, at(100));
    assert_eq!((plan.steps.len(), status.slots.as_str()), (500, "16384/16384"));
    // Not a benchmark: unoptimised, on a busy machine, cubic work would take minutes.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is cut short and whichever process restarts in between, no rule is broken and it comes out whole,
    /// as long as each shard keeps one member that had the data.
    #[test]
    fn every_interrupted_history_ends_whole(
        shards in 3u32..6,
        members in 1u32..4,
        cuts in proptest::collection::vec(0usize..12, 0..20),
        restarts in proptest::collection::vec(0usize..64, 0..4),
    ) {
        let wish = Wish { shards, members_per_shard: members };
        let mut small = Small::new(wish);
        let mut cuts = cuts.into_iter();
        small.settle(wish, |steps| cuts.next().unwrap_or(steps));
        whole(&small, wish);
        if members > 1 {
            for restart in restarts {
                small.restart(restart % small.pods.len());
                small.settle(wish, |steps| steps);
                whole(&small, wish);
            }
        }
    }
}
