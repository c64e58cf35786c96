//! The two walks, through the real binaries: a request is decided, a rule is changed, and the next request obeys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limits_redis::published::{LONGEST_PAGE, PAGE_BYTES};
use local::servers::{End, Postgres, Redis};
use local::topic::{Mode, Order};
use serde_json::{Value, json};
use tests::{Container, Function, FunctionError, Operator, Region, question, stores};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::denials;

/// Longer than any delivery here should take on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the control API answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u64,
    pub(crate) propagation: String,
    pub(crate) body: Value,
}

/// A region with its control API and some authorizers.
pub(crate) struct World {
    pub(crate) region: Region,
    pub(crate) rules: Container,
    clients: Container,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::of(Region::new().await).await
    }

    pub(crate) async fn of(region: Region) -> Self {
        let rules = region.container(Function::Rules).await;
        let clients = region.container(Function::Clients).await;
        let world = Self {
            region,
            rules,
            clients,
        };
        world.scheduled().await;
        world
    }

    async fn authorizer(&self) -> Container {
        self.region.container(Function::Authorizer).await
    }

    /// One call of the control API; what it announces has been delivered when this returns.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.call_with(method, path, &[], body).await
    }

    /// The same with a query, as [`question::control`] has it.
    pub(crate) async fn call_with(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        body: Value,
    ) -> Answer {
        let event = question::control(method, path, query, body);
        let function = if path.starts_with("/clients") {
            &self.clients
        } else {
            &self.rules
        };
        let answer = function.invoke(&event).await.unwrap();
        assert!(self.region.topic.settled(PATIENCE).await);
        Answer {
            status: answer["statusCode"].as_u64().unwrap(),
            propagation: header(&answer, "weir-propagation"),
            body: serde_json::from_str(answer["body"].as_str().unwrap_or("null"))
                .unwrap_or_default(),
        }
    }

    /// A call that must succeed.
    pub(crate) async fn say(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.call(method, path, body).await;
        assert!((200..300).contains(&answer.status), "{answer:?}");
        answer.body
    }

    /// A client with a key.
    pub(crate) async fn client(&self, id: &str, tier: &str) -> String {
        self.say("POST", "/clients", json!({"client_id": id, "tier": tier}))
            .await;
        let key = self
            .say("POST", &format!("/clients/{id}/keys"), json!({}))
            .await;
        key["api_key"].as_str().unwrap().to_owned()
    }

    /// A rule of so many a day, and its id.
    async fn rule(&self, limit: u64) -> String {
        let rule = self.say("POST", "/ratelimit/rules", rule(limit)).await;
        rule["id"].as_str().unwrap().to_owned()
    }

    async fn replace_rule(&self, id: &str, limit: u64) {
        self.say("PUT", &format!("/ratelimit/rules/{id}"), rule(limit))
            .await;
        denials::are_forgotten().await;
    }

    /// What the schedule does each minute.
    pub(crate) async fn scheduled(&self) {
        let event = include_str!("../../events/refresh-schedule.json");
        let event: Value = serde_json::from_str(event).unwrap();
        self.region.refresh.invoke(&event).await.unwrap();
    }
}

fn header(answer: &Value, name: &str) -> String {
    let headers = tests::answer::headers(answer);
    headers[name].as_str().unwrap_or_default().to_owned()
}

fn rule(limit: u64) -> Value {
    json!({"resource": "GET /orders/*", "limit": limit, "time_window": 86_400})
}

pub(crate) fn request(key: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-rest.json")).unwrap();
    event["headers"]["x-api-key"] = key.into();
    event["multiValueHeaders"]["x-api-key"] = json!([key]);
    event
}

pub(crate) async fn allowed(authorizer: &Container, key: &str) -> Result<bool, FunctionError> {
    let answer = authorizer.invoke(&request(key)).await?;
    let effect = &answer["policyDocument"]["Statement"][0]["Effect"];
    assert_eq!(answer["context"]["degraded"], "");
    Ok(effect == "Allow")
}

/// How many of so many calls pass, made in turn through several containers.
pub(crate) async fn passed(authorizers: &[&Container], key: &str, calls: usize) -> usize {
    let mut passed = 0;
    for i in 0..calls {
        let authorizer = authorizers[i % authorizers.len()];
        passed += usize::from(allowed(authorizer, key).await.unwrap());
    }
    passed
}

fn unauthorized() -> Result<bool, FunctionError> {
    Err(FunctionError {
        error_type: "Unauthorized".to_owned(),
        error_message: "Unauthorized".to_owned(),
    })
}

#[tokio::test]
async fn a_limit_used_up_over_two_containers_and_raised_lets_exactly_the_difference_pass() {
    let world = World::new().await;
    let key = world.client("eve", "free").await;
    let id = world.rule(10).await;
    let (one, two) = (world.authorizer().await, world.authorizer().await);
    assert_eq!(passed(&[&one, &two], &key, 24).await, 10);
    world.replace_rule(&id, 25).await;
    assert_eq!(passed(&[&two, &one], &key, 40).await, 15);
    world.replace_rule(&id, 5).await;
    assert_eq!(passed(&[&one, &two], &key, 6).await, 0);
}

#[tokio::test]
async fn a_client_terminated_and_a_key_deleted_are_refused_by_every_container_at_the_next_call() {
    let world = World::new().await;
    let (eve, bob) = (
        world.client("eve", "free").await,
        world.client("bob", "paid").await,
    );
    world.rule(1_000).await;
    let (one, two) = (world.authorizer().await, world.authorizer().await);
    for key in [&eve, &bob] {
        assert_eq!(passed(&[&one, &two], key, 4).await, 4);
    }
    world
        .say("PUT", "/clients/eve", json!({"status": "terminated"}))
        .await;
    for authorizer in [&one, &two] {
        assert_eq!(allowed(authorizer, &eve).await, unauthorized());
        assert_eq!(allowed(authorizer, &bob).await, Ok(true));
    }
    let keys = world.say("GET", "/clients/bob/keys", Value::Null).await;
    let key_id = keys["keys"][0]["key_id"].as_str().unwrap();
    world
        .say(
            "DELETE",
            &format!("/clients/bob/keys/{key_id}"),
            Value::Null,
        )
        .await;
    for authorizer in [&one, &two] {
        assert_eq!(allowed(authorizer, &bob).await, unauthorized());
    }
    world.say("PUT", "/clients/eve", json!({})).await;
    assert_eq!(allowed(&one, &eve).await, Ok(true));
}

#[tokio::test]
async fn a_dead_topic_leaves_the_write_in_place_and_the_schedule_heals_it() {
    let world = World::new().await;
    let key = world.client("eve", "free").await;
    let id = world.rule(0).await;
    let authorizer = world.authorizer().await;
    assert_eq!(allowed(&authorizer, &key).await, Ok(false));
    world.region.topic.set(Mode::Refuse);
    let path = format!("/ratelimit/rules/{id}");
    let answer = world.call("PUT", &path, rule(3)).await;
    assert_eq!(
        (answer.status, answer.propagation.as_str()),
        (200, "pending")
    );
    assert_eq!(answer.body["propagation"], "pending");
    assert_eq!(world.say("GET", &path, Value::Null).await["limit"], 3);
    assert_eq!(allowed(&authorizer, &key).await, Ok(false));
    world.scheduled().await;
    // A block is answered without asking for at most a second.
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(passed(&[&authorizer], &key, 5).await, 3);
}

#[tokio::test]
async fn messages_that_are_lost_doubled_or_reordered_end_in_the_newest_rule() {
    let world = World::new().await;
    let key = world.client("eve", "free").await;
    let id = world.rule(1).await;
    let authorizer = world.authorizer().await;
    assert_eq!(passed(&[&authorizer], &key, 3).await, 1);

    world.region.topic.set(Mode::Duplicate);
    world.replace_rule(&id, 2).await;
    assert_eq!(passed(&[&authorizer], &key, 3).await, 1);

    world.region.topic.set(Mode::Hold);
    for limit in [3, 4, 6] {
        world.replace_rule(&id, limit).await;
    }
    assert_eq!(passed(&[&authorizer], &key, 2).await, 0);
    world.region.topic.release(Order::Reversed);
    assert!(world.region.topic.settled(PATIENCE).await);
    denials::are_forgotten().await;
    assert_eq!(passed(&[&authorizer], &key, 9).await, 4);

    world.region.topic.set(Mode::Drop);
    world.replace_rule(&id, 9).await;
    assert_eq!(passed(&[&authorizer], &key, 2).await, 0);
    // The next message that arrives brings all that was missed.
    world.region.topic.set(Mode::Deliver);
    world.client("bob", "free").await;
    denials::are_forgotten().await;
    assert_eq!(passed(&[&authorizer], &key, 9).await, 3);
}

#[tokio::test]
async fn a_decision_is_one_command_to_redis_and_none_to_postgres() {
    let redis = Redis::start().unwrap();
    let mut postgres = Postgres::start().unwrap();
    stores::migrate(&postgres.url()).await;
    let world = World::of(Region::with(&redis.url(), &postgres.url()).await).await;
    let key = world.client("eve", "free").await;
    world.rule(1_000).await;
    world
        .say(
            "POST",
            "/ratelimit/rules",
            json!({"resource": "*", "limit": 1_000, "time_window": 60, "per": "all"}),
        )
        .await;
    let authorizer = world.authorizer().await;
    authorizer.ready().await.unwrap();
    // It has no way to Postgres, and there is none.
    postgres.stop(End::Kill);

    let monitor = Monitor::of(&redis).await;
    assert_eq!(passed(&[&authorizer], &key, 1).await, 1);
    // First sight of the key, then the call: each by the text too, which this server may not have had yet.
    let first = monitor.commands().await;
    assert!(
        first.iter().any(|command| command.contains("}:key")),
        "{first:?}"
    );
    assert!(first.len() <= 4, "{first:?}");

    assert_eq!(passed(&[&authorizer], &key, 50).await, 50);
    let commands = monitor.commands().await;
    let scripts = commands
        .iter()
        .filter(|command| command.contains("\"EVALSHA\""));
    assert_eq!((scripts.count(), commands.len()), (50, 50), "{commands:?}");

    // A server that lost its scripts is told the text once; the call that it refused was not counted.
    let mut connection = monitor
        .probe
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    redis::cmd("SCRIPT")
        .arg("FLUSH")
        .exec_async(&mut connection)
        .await
        .unwrap();
    monitor.commands().await;
    let told = authorizer.invoke(&request(&key)).await.unwrap();
    assert_eq!(told["context"]["remaining"], "948");
    let commands = monitor.commands().await;
    assert!(
        commands.iter().any(|command| command.contains("\"EVAL\"")),
        "{commands:?}"
    );
    assert_eq!(commands.len(), 2, "{commands:?}");
}

#[tokio::test]
async fn many_rules_are_loaded_in_short_pages_and_a_change_in_one_read() {
    let redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    operator.key("eve", "a-key-of-eve").await;
    let rules =
        (0..8_000).map(|i| json!({"resource": format!("/r{i}"), "limit": 1, "time_window": 60}));
    operator.rules(rules.collect()).await;
    let one = operator.rule(rule(1_000)).await;

    let monitor = Monitor::of(&redis).await;
    let authorizer = operator.container(Function::Authorizer, &[]).await;
    authorizer.ready().await.unwrap();
    let commands = monitor.commands().await;
    let mut connection = monitor
        .probe
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    let mut pages = 0;
    for command in commands.iter().filter(|all| all.contains("\"HMGET\"")) {
        let words: Vec<&str> = command.split('"').skip(1).step_by(2).collect();
        let mut again = redis::cmd(words[0]);
        again.arg(&words[1..]);
        let bodies: Vec<Option<String>> = again.query_async(&mut connection).await.unwrap();
        let bytes: usize = bodies.iter().flatten().map(String::len).sum();
        assert!(
            bodies.len() <= LONGEST_PAGE && bytes <= 2 * PAGE_BYTES,
            "{} chunks, {bytes} bytes",
            bodies.len()
        );
        pages += 1;
    }
    // As long as they may be, too.
    assert!((20..200).contains(&pages), "{pages}");
    monitor.commands().await;
    assert_eq!(passed(&[&authorizer], "a-key-of-eve", 2).await, 2);
    monitor.commands().await;

    operator.replace_rule(one, rule(2_000)).await;
    monitor.commands().await;
    assert_eq!(passed(&[&authorizer], "a-key-of-eve", 1).await, 1);
    // Told that it is behind, one read, asked again.
    let commands = monitor.commands().await;
    assert_eq!(commands.len(), 3, "{commands:?}");
    assert!(
        commands
            .iter()
            .all(|command| command.contains("\"EVALSHA\"")),
        "{commands:?}"
    );
}

/// What clients send to a server; what scripts call inside is not told.
pub(crate) struct Monitor {
    lines: tokio::sync::Mutex<BufReader<TcpStream>>,
    probe: redis::Client,
}

impl Monitor {
    pub(crate) async fn of(server: &Redis) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port()))
            .await
            .unwrap();
        stream.write_all(b"MONITOR\r\n").await.unwrap();
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        lines.read_line(&mut first).await.unwrap();
        assert_eq!(first, "+OK\r\n");
        Self {
            lines: tokio::sync::Mutex::new(lines),
            probe: redis::Client::open(server.url()).unwrap(),
        }
    }

    /// The commands since the last look: all that comes before one of our own.
    pub(crate) async fn commands(&self) -> Vec<String> {
        let end = stores::unique("the-end");
        let mut connection = self.probe.get_multiplexed_async_connection().await.unwrap();
        let _: String = redis::cmd("PING")
            .arg(&end)
            .query_async(&mut connection)
            .await
            .unwrap();
        let mut lines = self.lines.lock().await;
        let mut commands = Vec::new();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).await.unwrap();
            if line.contains(&end) {
                return commands;
            }
            let of_a_client = !line.contains(" lua] ");
            let of_greeting = line.contains("\"CLIENT\"") || line.contains("\"HELLO\"");
            if of_a_client && !of_greeting {
                commands.push(line);
            }
        }
    }
}

async fn redis_seconds(connection: &mut redis::aio::MultiplexedConnection) -> f64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(connection).await.unwrap();
    seconds as f64 + micros as f64 / 1e6
}

#[tokio::test]
async fn eight_containers_on_one_bucket_admit_what_the_rule_allows() {
    const BURST: f64 = 40.0;
    // So few that even a busy machine asks for more, and no pause of it is long enough for the bucket to be full.
    const LIMIT: f64 = 40.0;
    let world = World::new().await;
    let key = world.client("eve", "free").await;
    world.say("POST", "/ratelimit/rules", json!({"resource": "*", "limit": LIMIT as u64, "time_window": 1, "burst": BURST as u64, "per": "all"})).await;
    let mut authorizers = Vec::new();
    for _ in 0..8 {
        let authorizer = world.authorizer().await;
        authorizer.ready().await.unwrap();
        authorizers.push(authorizer);
    }
    let client = redis::Client::open(stores::redis().url()).unwrap();
    let mut clock = client.get_multiplexed_async_connection().await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let before = redis_seconds(&mut clock).await;
    let hammering: Vec<_> = authorizers
        .into_iter()
        .map(|authorizer| {
            let (over, key) = (Arc::clone(&over), key.clone());
            tokio::spawn(async move {
                let (mut passed, mut denied) = (0_u32, 0_u32);
                while !over.load(Ordering::Relaxed) {
                    match allowed(&authorizer, &key).await.unwrap() {
                        true => passed += 1,
                        false => denied += 1,
                    }
                }
                (passed, denied)
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked_until = redis_seconds(&mut clock).await;
    over.store(true, Ordering::Relaxed);
    let (mut passed, mut denied) = (0, 0);
    for container in hammering {
        let (own, refused) = container.await.unwrap();
        passed += own;
        denied += refused;
    }
    let after = redis_seconds(&mut clock).await;
    let most = BURST + LIMIT * (after - before);
    // Each container may have been between two calls when a token came back, at the end and at the beginning.
    let least = LIMIT * (asked_until - before) - 8.0;
    println!(
        "admitted {passed} of {}, allowed {least:.0} to {most:.0}",
        passed + denied
    );
    assert!(denied > 0, "not hammered");
    assert!(f64::from(passed) <= most, "{passed} > {most}");
    assert!(f64::from(passed) >= least, "{passed} < {least}");
}
