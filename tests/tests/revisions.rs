//! Revisions come in the order of commits, and whoever follows them misses nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use limits::registry::{ClientStatus, Name};
use limits::rule::Tier;
use limits::{Draft, Lane};
use limits_postgres::change_clients::ClientDraft;
use limits_postgres::{Database, Head};
use serde_json::{Value, json};
use tests::{Function, Region, stores};
use tokio_postgres::{Client, NoTls};

use crate::audit::{http, rest};
use crate::control::Control;

/// A connection beside those of the functions.
async fn psql(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_follower_misses_no_write_however_many_write_at_once() {
    let url = stores::database().await;
    let containers: Vec<Database> = (0..4).map(|_| Database::parse(&url).unwrap()).collect();
    let follower = Database::parse(&url).unwrap();
    let start = follower.head().await.unwrap();
    let writes = containers
        .iter()
        .enumerate()
        .map(|(container, database)| async move {
            let mut revisions = Vec::new();
            for number in 0..25 {
                let id = format!("c{container}-{number}");
                let written = database
                    .create_client("test", &id, ClientDraft::new(Tier::Free))
                    .await
                    .unwrap();
                revisions.push(written.revision);
                let draft = Draft::new(format!("/{container}/{number}"), Some(1), 1);
                let written = database.create_rule("test", draft).await.unwrap();
                revisions.push(written.revision);
            }
            revisions
        });
    let follow = async {
        let (mut seen, mut names, mut chunks, mut steps) =
            (start, BTreeSet::new(), BTreeSet::new(), 0);
        while seen.revision < start.revision + 200 {
            let changes = follower.changes(Some(seen)).await.unwrap();
            assert!(changes.known && changes.head.revision >= seen.revision);
            for change in &changes.registry {
                assert!(
                    change.revision > seen.revision && change.revision <= changes.head.revision
                );
                names.insert(change.name.clone());
            }
            chunks.extend(changes.chunks);
            steps += u32::from(changes.head != seen);
            seen = changes.head;
        }
        (names, chunks, steps)
    };
    let (written, (names, chunks, steps)) = futures::future::join(join_all(writes), follow).await;
    assert!(steps > 10, "it followed while they wrote: {steps}");
    let revisions: BTreeSet<u64> = written.into_iter().flatten().collect();
    assert_eq!(
        revisions,
        (start.revision + 1..=start.revision + 200).collect()
    );
    let all: BTreeSet<Name> = (0..4)
        .flat_map(|container| {
            (0..25).map(move |number| Name::Client(format!("c{container}-{number}")))
        })
        .collect();
    assert_eq!(names, all);
    let rules = follower
        .list_rules(&Default::default(), None, 1000)
        .await
        .unwrap()
        .items;
    assert_eq!(
        chunks,
        rules.iter().map(|rule| limits::chunk_of(rule.id)).collect()
    );
}

#[tokio::test]
async fn a_write_that_began_first_is_not_overtaken() {
    let url = stores::database().await;
    let database = Database::parse(&url).unwrap();
    let slow = psql(&url).await;
    // Another container, stopped in the middle of its write.
    slow.batch_execute(
        "BEGIN; UPDATE head SET revision = revision + 1, id = gen_random_uuid();
         INSERT INTO revisions SELECT revision, id, now(), 'slow' FROM head;
         INSERT INTO registry_names SELECT 'client', 'slow', 7, revision, true FROM head",
    )
    .await
    .unwrap();
    let before = database.head().await.unwrap();
    let other = Database::parse(&url).unwrap();
    let fast = tokio::spawn(async move {
        other
            .create_client("test", "fast", ClientDraft::new(Tier::Free))
            .await
    });
    // It stands behind the lock, and nothing shows. Who watches does so from outside of the transaction, where the view is fresh.
    let watcher = psql(&url).await;
    loop {
        assert!(!fast.is_finished(), "it did not wait: {:?}", fast.await);
        let waiting = watcher.query_one("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()", &[]);
        if waiting.await.unwrap().get::<_, i64>(0) > 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(database.changes(Some(before)).await.unwrap().head, before);
    slow.batch_execute("COMMIT").await.unwrap();
    let written = fast.await.unwrap().unwrap();
    assert_eq!(written.revision, before.revision + 2);
    let changes = database.changes(Some(before)).await.unwrap();
    let told: Vec<_> = changes
        .registry
        .iter()
        .map(|change| (change.revision - before.revision, change.name.id()))
        .collect();
    assert_eq!(told, [(1, "slow"), (2, "fast")]);
}

#[tokio::test]
async fn a_history_that_another_took_the_place_of_is_not_known() {
    let url = stores::database().await;
    let control = Control::at(&url);
    let database = &control.database;
    control
        .rule(json!({"resource": "/a", "limit": 1, "time_window": 1}))
        .await;
    let backup = database.head().await.unwrap();
    control.post("/clients", json!({"client_id": "lost"})).await;
    let published = database.head().await.unwrap();
    assert!(database.changes(Some(published)).await.unwrap().known);
    // The restore: back to the backup, and on from there past what was published.
    psql(&url)
        .await
        .batch_execute(&format!(
            "UPDATE head SET revision = {r}, id = '{i}'; DELETE FROM audit WHERE revision > {r}; DELETE FROM revisions WHERE revision > {r};
             DELETE FROM registry_names WHERE revision > {r}; DELETE FROM registry_lanes; DELETE FROM clients",
            r = backup.revision,
            i = backup.id,
        ))
        .await
        .unwrap();
    let not_known = database.changes(Some(published)).await.unwrap();
    assert!(!not_known.known, "behind what was published");
    control.post("/clients", json!({"client_id": "new"})).await;
    control
        .post("/clients", json!({"client_id": "newer"}))
        .await;
    let passed = database.changes(Some(published)).await.unwrap();
    assert!(
        passed.head.revision > published.revision && !passed.known,
        "past what was published"
    );
    assert_eq!(
        passed.chunks.len(),
        usize::from(limits::CHUNKS),
        "everything may differ"
    );
    let mut lanes: Vec<_> = passed
        .registry
        .iter()
        .map(|change| change.name.lane())
        .collect();
    lanes.sort_unstable();
    assert_eq!(
        lanes,
        database
            .lane_revisions()
            .await
            .unwrap()
            .iter()
            .map(|(lane, _)| *lane)
            .collect::<Vec<_>>()
    );
    assert!(
        database.changes(Some(backup)).await.unwrap().known,
        "what both have in common is"
    );
    assert!(!database.changes(None).await.unwrap().known);
}

#[tokio::test]
async fn the_feed_tells_what_changed_and_nothing_else() {
    for control in Control::both().await {
        let database = &control.database;
        let role = "arn:aws:iam::123456789012:role/orders";
        let id = control
            .rule(json!({"resource": "/a", "limit": 1, "time_window": 1}))
            .await;
        control.post("/clients", json!({"client_id": "bob"})).await;
        let start = database.head().await.unwrap();
        assert_eq!(
            changed(database, start).await,
            ([].into(), vec![]),
            "{}",
            control.store
        );

        let chunk = limits::chunk_of(id.parse().unwrap());
        control
            .put(
                &format!("/ratelimit/rules/{id}"),
                json!({"resource": "/b", "limit": 1, "time_window": 1}),
            )
            .await;
        assert_eq!(changed(database, start).await, ([chunk].into(), vec![]));
        let (head, chunks) = database.chunks(&[chunk, 4095]).await.unwrap();
        assert_eq!(head, database.head().await.unwrap());
        let rule = json!({
            "id": id, "resource": "/b", "client": null, "tier": null, "per": "client", "override": false, "split": 1,
            "algorithm": "token_bucket", "limit": 1, "time_window": 1, "burst": null, "on_failure": "limit",
            "status": "active", "description": "", "revision": 3,
        });
        assert_eq!(
            chunks,
            [(chunk, vec![rule]), (4095, vec![])],
            "{}",
            control.store
        );
        let start = head;
        control.delete(&format!("/ratelimit/rules/{id}")).await;
        assert_eq!(
            changed(database, start).await,
            ([chunk].into(), vec![]),
            "a deletion is a change"
        );
        assert_eq!(
            database.chunks(&[chunk]).await.unwrap().1,
            [(chunk, vec![])]
        );

        let start = database.head().await.unwrap();
        control
            .post(
                "/clients",
                json!({"client_id": "eve", "principal": role, "tier": "paid"}),
            )
            .await;
        let key = control
            .post(
                "/clients/eve/keys",
                json!({"expires_at": "2999-01-01T00:00:00Z"}),
            )
            .await
            .body;
        let hash = limits::registry::key_hash(key["api_key"].as_str().unwrap());
        let names = [
            Name::Client("eve".to_owned()),
            Name::Key(hash),
            Name::Principal("123456789012/role/orders".to_owned()),
        ];
        let all = |creation: bool| {
            names
                .iter()
                .map(|name| (name.clone(), creation))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            changed(database, start).await,
            ([].into(), all(true)),
            "{}",
            control.store
        );
        let (_, entries) = database.entries(&names).await.unwrap();
        for (name, entry) in &entries {
            let entry = entry.as_ref().unwrap();
            assert_eq!(
                (entry.id.as_str(), entry.tier, entry.registered),
                ("eve", Some(Tier::Paid), true)
            );
            let end = matches!(name, Name::Key(_)).then_some(32_472_144_000);
            assert_eq!(entry.expires_at, end, "{name:?}");
        }

        // Termination and tier reach every way in.
        let start = database.head().await.unwrap();
        control
            .put(
                "/clients/eve",
                json!({"principal": role, "status": "terminated"}),
            )
            .await;
        assert_eq!(changed(database, start).await, ([].into(), all(false)));
        let (_, entries) = database.entries(&names).await.unwrap();
        assert_eq!(entries.len(), 3);
        for (_, entry) in entries {
            assert_eq!(entry.unwrap().status, ClientStatus::Terminated);
        }

        // Another principal: the old one is nobody's. A key that is deleted is nobody's.
        let start = database.head().await.unwrap();
        control.put("/clients/eve", json!({})).await;
        let path = format!("/clients/eve/keys/{}", key["key_id"].as_str().unwrap());
        control.delete(&path).await;
        assert_eq!(changed(database, start).await, ([].into(), all(false)));
        let (_, entries) = database.entries(&names).await.unwrap();
        let there: Vec<bool> = entries.iter().map(|(_, entry)| entry.is_some()).collect();
        assert_eq!(there, [true, false, false], "{}", control.store);

        control.delete("/clients/eve").await;
        let start = database.head().await.unwrap();
        control.post("/clients", json!({"client_id": "eve"})).await;
        let back = vec![(names[0].clone(), false)];
        assert_eq!(
            changed(database, start).await,
            ([].into(), back),
            "a name that comes back is no creation"
        );

        for name in &names {
            let lane = name.lane();
            let newest = database
                .lane_revisions()
                .await
                .unwrap()
                .into_iter()
                .find(|(own, _)| *own == lane)
                .unwrap()
                .1;
            assert!(
                database
                    .lane_changes(lane, newest - 1)
                    .await
                    .unwrap()
                    .iter()
                    .any(|n| n.lane() == lane)
            );
            assert!(
                database
                    .lane_changes(lane, newest)
                    .await
                    .unwrap()
                    .is_empty()
            );
            assert!(
                pages(database, lane).await.contains(name),
                "also what is gone"
            );
        }
    }
}

#[tokio::test]
async fn a_lane_is_told_in_pages_without_gap_or_repetition() {
    for control in Control::both().await {
        let database = &control.database;
        let mut own = BTreeSet::new();
        for number in 0.. {
            let id = format!("c{number}");
            if Lane::of(&id) == Lane(7) {
                control.post("/clients", json!({"client_id": id})).await;
                own.insert(Name::Client(id));
            }
            if own.len() == 5 {
                break;
            }
        }
        control
            .post("/clients", json!({"client_id": "elsewhere"}))
            .await;
        let told = pages(database, Lane(7)).await;
        assert_eq!(
            told,
            own.into_iter().collect::<Vec<_>>(),
            "{}",
            control.store
        );
    }
}

#[tokio::test]
async fn columns_that_this_code_does_not_know_pass_through() {
    let url = stores::database().await;
    let control = Control::at(&url);
    psql(&url)
        .await
        .batch_execute("ALTER TABLE rules ADD COLUMN flavour text DEFAULT 'mint'")
        .await
        .unwrap();
    let id = control
        .rule(json!({"resource": "/a", "limit": 1, "time_window": 1}))
        .await;
    let (_, chunks) = control
        .database
        .chunks(&[limits::chunk_of(id.parse().unwrap())])
        .await
        .unwrap();
    assert_eq!(chunks[0].1[0]["flavour"], "mint");
    assert_eq!(
        control.get(&format!("/ratelimit/rules/{id}")).await.status,
        200
    );
}

#[tokio::test]
async fn whoever_asks_is_told_how_far_the_database_and_its_region_are() {
    let region = Region::new().await;
    let rules = region.container(Function::Rules).await;
    let body = |answer: Value| -> Value {
        serde_json::from_str(answer["body"].as_str().unwrap()).unwrap()
    };
    let ask = http("GET", "/ratelimit/revision", "");
    let told = body(rules.invoke(&ask).await.unwrap());
    assert_eq!(told, json!({"revision": 0, "published": null}));

    let rule = json!({"resource": "/a", "limit": 1, "time_window": 1});
    let made = body(
        rules
            .invoke(&rest("POST", "/ratelimit/rules", &rule))
            .await
            .unwrap(),
    );
    assert_eq!(made["propagation"], "announced");
    assert!(region.topic.settled(Duration::from_secs(30)).await);
    assert_eq!(
        region.topic.published(),
        [r#"{"revision":1}"#],
        "and nothing of the rule"
    );
    let told = body(rules.invoke(&ask).await.unwrap());
    assert_eq!(
        (&told["revision"], &told["published"]["revision"]),
        (&json!(1), &json!(1))
    );
    assert!(told["published"]["at"].as_str().unwrap() >= made["created_at"].as_str().unwrap());

    // The same news again, for whoever lost it.
    let again = body(
        rules
            .invoke(&rest("POST", "/ratelimit/refresh", &json!({})))
            .await
            .unwrap(),
    );
    assert_eq!(again, json!({"revision": 1, "propagation": "announced"}));
    assert_eq!(region.topic.published().len(), 2);
}

/// The chunks and the names that changed since.
async fn changed(database: &Database, since: Head) -> (BTreeSet<u16>, Vec<(Name, bool)>) {
    let changes = database.changes(Some(since)).await.unwrap();
    assert!(changes.known);
    let mut names: Vec<_> = changes
        .registry
        .into_iter()
        .map(|change| (change.name, change.creation))
        .collect();
    names.sort();
    (changes.chunks.into_iter().collect(), names)
}

async fn pages(database: &Database, lane: Lane) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    loop {
        let page = database.lane_names(lane, names.last(), 2).await.unwrap();
        if page.is_empty() {
            return names;
        }
        names.extend(page);
    }
}
