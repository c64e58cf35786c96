//! The Redis user that the template makes: the functions do all they do as that user, who may do nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use local::servers::Redis;
use redis::{AsyncConnectionConfig, Client, RedisResult, Value as Reply};
use serde_json::{Value, json};
use tests::console::ask;
use tests::template::deployed;
use tests::{Container, Function, RedisCluster, Region, stores};
use tokio::time::sleep;

use crate::clusters::client_on;
use crate::walks::{World, allowed};

const LOGIN: &str = "functions:letmein";

/// What the template lets the user do whose keys begin with `prefix`.
fn access_string(prefix: &str) -> String {
    let template = deployed(json!({ "KeyPrefix": prefix }));
    let user = &template["Resources"]["CacheUser"]["Properties"];
    user["AccessString"].as_str().unwrap().to_owned()
}

/// A region whose functions log in to these servers, which are at `hosts`, as the template's user.
async fn region(scheme: &str, hosts: &str, nodes: &[&Redis]) -> Region {
    let url = format!("{scheme}://{LOGIN}@{hosts}");
    let region = Region::with(&url, &stores::database().await).await;
    let (name, password) = LOGIN.split_once(':').unwrap();
    let access = access_string(region.variable("KEY_PREFIX"));
    for node in nodes {
        let make = format!("ACL SETUSER {name} {access} >{password}");
        let _: () = ask(node, &make).await.unwrap();
    }
    region
}

/// What the check API says of a call that spends.
async fn spend(check: &Container, client: &str, resource: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/check-url.json")).unwrap();
    let path = format!("/ratelimit/status/{client}");
    event["rawPath"] = path.as_str().into();
    event["requestContext"]["http"]["path"] = path.into();
    event["body"] = json!({ "resource": resource }).to_string().into();
    let answer = check.invoke(&event).await.unwrap();
    serde_json::from_str(answer["body"].as_str().unwrap()).unwrap()
}

/// All that the functions do with Redis: they publish, look up, count by each algorithm, explain and start afresh.
async fn everything(world: &World) {
    let key = world.client("eve", "free").await;
    let algorithms = [
        "token_bucket",
        "leaky_bucket",
        "fixed_window",
        "sliding_window",
        "sliding_log",
    ];
    for algorithm in algorithms {
        for per in ["client", "all"] {
            let rule = json!({
                "resource": format!("/{algorithm}/{per}"), "per": per, "algorithm": algorithm, "limit": 1, "time_window": 86_400,
            });
            world.say("POST", "/ratelimit/rules", rule).await;
        }
    }
    let check = [("CHECK_ANONYMOUS", "allow")];
    let check = world.region.container_with(Function::Check, &check).await;
    for algorithm in algorithms {
        for per in ["client", "all"] {
            let resource = format!("/{algorithm}/{per}");
            for wanted in ["allowed", "blocked"] {
                let told = spend(&check, "eve", &resource).await;
                assert_eq!(told["status"], wanted, "{resource}: {told}");
                assert_ne!(told["reason"], "store_unavailable", "{resource}");
            }
        }
    }
    let authorizer = world.region.container(Function::Authorizer).await;
    assert_eq!(allowed(&authorizer, &key).await, Ok(true));
    let query = [("client", "eve"), ("resource", "/sliding_log/client")];
    let explained = world.call_with("GET", "/ratelimit/explain", &query, Value::Null);
    assert_eq!(explained.await.body["decision"]["status"], "blocked");
    world
        .say("POST", "/ratelimit/reset", json!({"client": "eve"}))
        .await;
    crate::denials::are_forgotten().await;
    let told = spend(&check, "eve", "/sliding_log/client").await;
    assert_eq!(told["status"], "allowed", "{told}");
    world.say("DELETE", "/clients/eve", Value::Null).await;
    assert!(allowed(&authorizer, &key).await.is_err());
}

/// Fails where one of the servers has refused something to anybody.
async fn refused_nothing(nodes: &[&Redis]) {
    for node in nodes {
        let refused: Vec<Reply> = ask(node, "ACL LOG").await.unwrap();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

/// What somebody does while these servers refuse nothing. The first refusal ends it: whoever meets one tries again for long.
async fn unrefused(nodes: &[&Redis], deeds: impl Future<Output = ()>) {
    let watch = async {
        loop {
            refused_nothing(nodes).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        biased;
        () = deeds => {}
        () = watch => {}
    }
    refused_nothing(nodes).await;
}

#[tokio::test]
async fn the_functions_do_all_they_do_as_the_templates_user() {
    let redis = Redis::start().unwrap();
    let host = format!("127.0.0.1:{}", redis.port());
    let region = region("redis", &host, &[&redis]).await;
    let deeds = async {
        let world = World::of(region).await;
        everything(&world).await;
    };
    unrefused(&[&redis], deeds).await;
}

#[tokio::test]
async fn so_they_do_in_a_cluster_and_while_a_slot_of_it_moves() {
    let cluster = RedisCluster::start(0).await;
    let nodes: Vec<&Redis> = (0..cluster.size()).map(|at| cluster.node(at)).collect();
    let hosts: Vec<String> = nodes
        .iter()
        .map(|node| format!("127.0.0.1:{}", node.port()))
        .collect();
    let region = region("redis+cluster", &hosts.join(","), &nodes).await;
    let deeds = async {
        let world = World::of(region).await;
        everything(&world).await;
        ask_while_a_slot_moves(&world, &cluster).await;
    };
    unrefused(&nodes, deeds).await;
}

/// Who asks where the slot is on its way is sent on, and says that he was.
async fn ask_while_a_slot_moves(world: &World, cluster: &RedisCluster) {
    let client = client_on(cluster, 0).await;
    let check = [("CHECK_ANONYMOUS", "allow")];
    let check = world.region.container_with(Function::Check, &check).await;
    let keys = limits_redis::keys::Keys::new(world.region.variable("KEY_PREFIX")).unwrap();
    let lane = limits::registry::Name::Client(client.clone()).lane();
    let slot = cluster.slot_of(&keys.epoch(lane)).await;
    let moving = cluster.begin_move(slot, 1).await;
    assert!(cluster.move_keys(&moving, 100).await > 0);
    let told = join_all((0..4).map(|_| spend(&check, &client, "/sliding_log/client"))).await;
    for told in told {
        assert_ne!(told["reason"], "store_unavailable", "{told}");
    }
    cluster.end_move(moving).await;
}

#[tokio::test]
async fn the_templates_user_may_touch_nothing_else() {
    let redis = Redis::start().unwrap();
    let host = format!("127.0.0.1:{}", redis.port());
    let region = region("redis", &host, &[&redis]).await;
    let own = region.variable("KEY_PREFIX");
    let client = Client::open(format!("redis://{LOGIN}@{host}")).unwrap();
    let settings = AsyncConnectionConfig::new();
    let connection = client.get_multiplexed_async_connection_with_config(&settings);
    let mut connection = connection.await.unwrap();
    let mut send = async |words: &str| -> RedisResult<Reply> {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>());
        command.query_async(&mut connection).await
    };
    let _: () = ask(&redis, "SET other:{1}:x 1").await.unwrap();
    assert!(send(&format!("SET {own}:{{1}}:x 1")).await.is_ok());
    for command in [
        "GET other:{1}:x",
        "SET other:{1}:x 2",
        "EVAL return(redis.call('GET','other:{1}:x')) 0",
        "FLUSHALL",
        "FLUSHDB",
        "CONFIG GET maxmemory",
        "KEYS *",
        "SCAN 0",
        "ACL WHOAMI",
        "CLIENT LIST",
        "CLUSTER NODES",
        "SCRIPT FLUSH",
        "SUBSCRIBE news",
        "MONITOR",
        "SHUTDOWN",
    ] {
        let refused = send(command).await.unwrap_err().to_string();
        let said = ["NOPERM", "permission", "can't access"];
        assert!(
            said.iter().any(|one| refused.contains(one)),
            "{command}: {refused}"
        );
    }
    let kept: i32 = ask(&redis, "GET other:{1}:x").await.unwrap();
    assert_eq!(kept, 1);
}

/// The commands in a source, each between `before` and the next quote.
fn commands(source: &str, before: &str, quote: char, found: &mut BTreeSet<String>) {
    for rest in source.split(before).skip(1) {
        if let Some((word, _)) = rest.split_once(quote)
            && word.bytes().all(|b| b.is_ascii_uppercase())
        {
            found.insert(word.to_lowercase());
        }
    }
}

fn sent(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sent(&path, found);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("lua") => commands(&source, "call('", '\'', found),
            _ => ["cmd(\"", "call(\""]
                .iter()
                .for_each(|before| commands(&source, before, '"', found)),
        }
    }
}

#[test]
fn it_may_send_what_the_sources_send_and_no_more() {
    let mut wanted = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    sent(&root.join("shared/limits-redis/src"), &mut wanted);
    // There are no sentinels in ElastiCache; of a cluster only one thing is asked.
    assert!(wanted.remove("sentinel") && wanted.remove("cluster"));
    wanted.insert("cluster|slots".to_owned());
    // How a server is.
    wanted.insert("info".to_owned());
    let access = access_string("weir");
    let mut words = access.split(' ');
    assert_eq!(words.next(), Some("on"));
    assert_eq!(words.next(), Some("~weir:*"));
    assert_eq!(words.next(), Some("-@all"));
    let granted = words.map(|word| word.strip_prefix('+').unwrap().to_owned());
    assert_eq!(granted.collect::<BTreeSet<_>>(), wanted);
}
