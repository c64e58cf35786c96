//! While Redis does not answer, in whatever way: what each rule says counts, on each door, and no container fills up.

use std::net::Ipv4Addr;

use futures::future::{join_all, join3};
use local::servers::{End, Redis};
use serde_json::{Value, json};
use tests::{Container, Function, Liar, Operator, Told, until};

use crate::check::{event, send};

const KEY: &str = "a-key-of-eve";

/// How Redis fails to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// Nothing listens.
    Refused,
    /// It accepts, and answers nothing.
    Hung,
    /// It asks for a password that nobody has.
    Password,
    /// The script is answered by an error.
    Script,
    /// It answers, and not what any script of ours does.
    Reply,
    /// It answers no Redis at all.
    Noise,
}

/// A Redis with what the stories need, and containers of both functions that know who asks.
struct Scene {
    outage: Outage,
    redis: Redis,
    operator: Operator,
    authorizer: Container,
    check: Container,
    liar: Liar,
}

const WARM: [(&str, &str); 6] = [
    ("REDIS_TIMEOUT_MS", "200"),
    ("RULES_LOAD_TIMEOUT_MS", "2000"),
    ("DEFAULT_LIMIT", "30/86400s"),
    ("CHECK_ANONYMOUS", "allow"),
    ("IDENTITY", "api-key,ip"),
    ("RUST_LOG", "info"),
];

impl Scene {
    async fn set(outage: Outage) -> Self {
        let redis = Redis::start().unwrap();
        let operator = Operator::at(&redis.url()).await;
        for id in ["eve", "pay", "ship", "mail"] {
            operator.client(id, json!({})).await;
        }
        operator.key("eve", KEY).await;
        let rule = |resource: &str, limit: Value, window: u64, on_failure: &str| json!({ "resource": resource, "limit": limit, "time_window": window, "on_failure": on_failure });
        let limit = |resource| rule(resource, json!(50), 86_400, "limit");
        let mut log = limit("/log");
        log["algorithm"] = "sliding_log".into();
        let mut shadow = rule("/limit", json!(1), 3_600, "deny");
        shadow["status"] = "shadow".into();
        operator
            .rules(vec![
                rule("/deny", json!(50), 86_400, "deny"),
                rule("/allow", json!(10), 86_400, "allow"),
                limit("/limit"),
                shadow,
                log,
                rule("/mixed", json!(10), 3_600, "allow"),
                limit("/mixed"),
                rule("/strict", json!(50), 3_600, "deny"),
                limit("/strict"),
                limit("/closed"),
                rule("/closed", json!(0), 3_600, "deny"),
                rule("/free", Value::Null, 60, "deny"),
                rule("pay", json!(50), 86_400, "deny"),
                rule("ship", json!(50), 86_400, "limit"),
                rule("mail", json!(10), 86_400, "allow"),
            ])
            .await;
        let liar = Liar::before(redis.port()).await;
        let through = format!("redis://127.0.0.1:{}", liar.port());
        let mut variables = WARM.to_vec();
        if matches!(outage, Outage::Reply | Outage::Noise) {
            variables.push(("REDIS_URL", &through));
        }
        let authorizer = operator.container(Function::Authorizer, &variables).await;
        let check = operator.container(Function::Check, &variables).await;
        let mut scene = Self {
            outage,
            redis,
            operator,
            authorizer,
            check,
            liar,
        };
        // A slow machine may take longer than this allows Redis.
        until(async || scene.by_rest("/free").await["degraded"] == "").await;
        let allows = async |asked: &Value| send(&scene.check, asked).await.status == 200;
        let (free, mut asked) = (post("eve", "/free", 1), Vec::new());
        asked.extend(["pay", "ship", "mail", "eve"].map(throttle));
        for asked in [free].iter().chain(&asked) {
            until(async || allows(asked).await).await;
        }
        scene.begin().await;
        scene
    }

    fn lie(&self, bytes: &'static [u8]) {
        self.liar.tells(move |_| Told::Lie(bytes.to_vec()));
    }

    async fn begin(&mut self) {
        let commands: &[&[&str]] = match self.outage {
            Outage::Refused => return self.redis.stop(End::Kill),
            Outage::Hung => return self.redis.pause(),
            Outage::Reply => return self.lie(b"$5\r\nhello\r\n"),
            Outage::Noise => return self.lie(b"\0\x01 220 smtp.example ready\r\n"),
            Outage::Password => &[
                &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
                &["CONFIG", "SET", "requirepass", "hunter2"],
            ],
            Outage::Script => &[&["CONFIG", "SET", "maxmemory", "1"]],
        };
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        for command in commands.iter().rev() {
            let mut said = redis::cmd(command[0]);
            said.arg(&command[1..]);
            let done: redis::Value = said.query_async(&mut connection).await.unwrap();
            drop(done);
        }
    }

    /// The context of what a REST API is told; nothing where it is an error.
    async fn by_rest(&self, path: &str) -> Value {
        let mut event: Value =
            serde_json::from_str(include_str!("../../events/authorizer-rest.json")).unwrap();
        for headers in ["headers", "multiValueHeaders"] {
            event[headers].as_object_mut().unwrap().remove("x-api-key");
        }
        event["headers"]["x-api-key"] = KEY.into();
        event["multiValueHeaders"]["x-api-key"] = json!([KEY]);
        event["path"] = path.into();
        self.context(&event).await
    }

    /// The same of an HTTP API.
    async fn by_http(&self, path: &str) -> Value {
        let mut event: Value =
            serde_json::from_str(include_str!("../../events/authorizer-http.json")).unwrap();
        event["headers"]["x-api-key"] = KEY.into();
        event["rawPath"] = path.into();
        event["requestContext"]["http"]["path"] = path.into();
        event["requestContext"]["stage"] = "$default".into();
        event["routeArn"] = Value::Null;
        event["routeKey"] = "$default".into();
        self.context(&event).await
    }

    async fn context(&self, event: &Value) -> Value {
        match self.authorizer.invoke(event).await {
            Ok(answer) => answer["context"].clone(),
            Err(error) => {
                assert_eq!(error.error_message, "StoreUnavailable");
                Value::Null
            }
        }
    }
}

fn post(client: &str, path: &str, tokens: u64) -> Value {
    let mut event = event("POST", &format!("/ratelimit/status/{client}"), "", None);
    event["body"] = json!({ "resource": path, "tokens": tokens })
        .to_string()
        .into();
    event
}

fn get(client: &str, path: &str) -> Value {
    let query = format!("resource={path}");
    event("GET", &format!("/ratelimit/status/{client}"), &query, None)
}

fn throttle(destination: &str) -> Value {
    let mut event = event("POST", "/throttleRequest", "", None);
    let body = json!({ "SourceService": "eve", "DestinationService": destination });
    event["body"] = body.to_string().into();
    event
}

async fn each_rule_says_what_counts(outage: Outage) {
    let scene = Scene::set(outage).await;
    authorizer(&scene).await;
    check(&scene).await;
    pairs(&scene).await;
    // It is told, whatever is the matter; however many ask meanwhile, none of them fills the log.
    for container in [&scene.authorizer, &scene.check] {
        let warnings = container.logs().matches("\"level\":\"WARN\"").count();
        assert!(
            (1..=5).contains(&warnings),
            "{outage:?}\n{}",
            container.logs()
        );
    }
    if outage == Outage::Script {
        // Who begins now reads the rules all the same.
        let cold = scene.operator.container(Function::Check, &WARM).await;
        let answer = send(&cold, &post("eve", "/limit", 1)).await;
        assert_eq!((answer.status, &answer.body["remaining"]), (200, &json!(4)));
    }
    drop(scene.operator);
}

async fn authorizer(scene: &Scene) {
    let outage = scene.outage;
    for path in ["/deny", "/strict"] {
        assert_eq!(scene.by_rest(path).await, Value::Null, "{outage:?} {path}");
        assert_eq!(scene.by_http(path).await, Value::Null, "{outage:?} {path}");
    }
    for _ in 0..6 {
        for context in [scene.by_rest("/allow").await, scene.by_http("/allow").await] {
            let told = ["decision", "reason", "degraded"].map(|name| context[name].clone());
            assert_eq!(told, ["allowed", "rule", "1"], "{outage:?}");
        }
    }
    // A tenth of the limit, whoever of the doors asks, in one container.
    for (path, share, limit, reason) in [
        ("/limit", 5, "50", "rule"),
        ("/log", 5, "50", "rule"),
        ("/mixed", 5, "50", "rule"),
        ("/else", 3, "30", "default"),
    ] {
        for left in (0..share).rev() {
            let context = match left % 2 {
                0 => scene.by_rest(path).await,
                _ => scene.by_http(path).await,
            };
            assert_eq!(
                context["decision"], "allowed",
                "{outage:?} {path} {context}"
            );
            assert_eq!(context["reason"], reason);
            assert_eq!(context["degraded"], "1");
            assert_eq!(context["limit"], limit);
            assert_eq!(context["remaining"], left.to_string());
            assert_eq!(context["wouldDeny"], "");
        }
        for context in [scene.by_rest(path).await, scene.by_http(path).await] {
            assert_eq!(context["decision"], "throttled", "{outage:?} {path}");
            assert_eq!(context["reason"], "store_unavailable");
            assert_eq!(context["degraded"], "1");
            assert_eq!(context["remaining"], "0");
            let wait: u64 = context["retryAfter"].as_str().unwrap().parse().unwrap();
            assert!((1..=86_400).contains(&wait), "{wait}");
            assert!(context["rateLimit"].as_str().unwrap().contains(";r=0;"));
        }
    }
    for (path, decision, reason) in [
        ("/closed", "throttled", "blocked"),
        ("/free", "allowed", "exempt"),
    ] {
        for context in [scene.by_rest(path).await, scene.by_http(path).await] {
            let told = ["decision", "reason"].map(|name| context[name].clone());
            assert_eq!(told, [decision, reason], "{outage:?}");
        }
    }
}

async fn check(scene: &Scene) {
    let outage = scene.outage;
    for event in [
        post("eve", "/deny", 1),
        get("eve", "/deny"),
        post("eve", "/strict", 1),
    ] {
        let answer = send(&scene.check, &event).await;
        assert_eq!(answer.status, 503, "{outage:?}");
        assert_eq!(answer.headers["retry-after"], "1");
    }
    for _ in 0..12 {
        let answer = send(&scene.check, &post("eve", "/allow", 1)).await;
        assert_eq!(
            (answer.status, &answer.body["reason"]),
            (200, &json!("rule"))
        );
    }
    // What is more than this container grants at all may pass when Redis is back.
    let answer = send(&scene.check, &post("eve", "/limit", 6)).await;
    assert_eq!(answer.status, 429, "{outage:?}");
    assert_eq!(answer.body["reason"], "store_unavailable");
    assert_eq!(answer.body["retry_after"], 1);
    assert_eq!(answer.headers["retry-after"], "1");
    let answer = send(&scene.check, &post("eve", "/limit", 51)).await;
    assert_eq!(answer.body["reason"], "cost_exceeds_capacity");
    // To look is not to take.
    for _ in 0..3 {
        let answer = send(&scene.check, &get("eve", "/limit")).await;
        assert_eq!((answer.status, &answer.body["remaining"]), (200, &json!(5)));
    }
    for (tokens, left) in [(3, 2), (2, 0)] {
        let answer = send(&scene.check, &post("eve", "/limit", tokens)).await;
        assert_eq!(
            (answer.status, &answer.body["remaining"]),
            (200, &json!(left))
        );
    }
    let denied = send(&scene.check, &post("eve", "/limit", 1)).await;
    assert_eq!(denied.status, 429);
    let looked = send(&scene.check, &get("eve", "/limit")).await;
    assert_eq!(
        (looked.status, &looked.body["status"]),
        (200, &json!("blocked"))
    );
    for body in [&denied.body, &looked.body] {
        assert_eq!(body["reason"], "store_unavailable", "{outage:?}");
        assert!(body["retry_at"].is_string() && body["retry_after"].is_u64());
    }
    // Identity is never guessed, whatever rules say.
    let answer = send(&scene.check, &post("stranger", "/allow", 1)).await;
    // A Redis that runs no script tells all the same who is registered.
    let judged = if outage == Outage::Script { 200 } else { 503 };
    assert_eq!(answer.status, judged, "{outage:?}");
}

async fn pairs(scene: &Scene) {
    let outage = scene.outage;
    assert_eq!(
        send(&scene.check, &throttle("pay")).await.status,
        503,
        "{outage:?}"
    );
    for _ in 0..6 {
        assert_eq!(
            send(&scene.check, &throttle("mail")).await.status,
            200,
            "{outage:?}"
        );
    }
    for _ in 0..5 {
        assert_eq!(
            send(&scene.check, &throttle("ship")).await.status,
            200,
            "{outage:?}"
        );
    }
    let denied = send(&scene.check, &throttle("ship")).await;
    assert_eq!(denied.status, 429, "{outage:?}");
    assert_eq!(denied.body["error"], "ExceedTpsLimit");
    assert_eq!(denied.body["reason"], "store_unavailable");
    // Where no rule fits the two, a hundred a second here.
    let answer = send(&scene.check, &throttle("eve")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["x-ratelimit-limit"], "1000");
    let left = &answer.headers["x-ratelimit-remaining"];
    assert!(
        left.as_str().unwrap().parse::<u64>().unwrap() < 100,
        "{left}"
    );
}

#[tokio::test]
async fn each_rule_says_what_counts_while_connections_are_refused_or_hang() {
    let both = [Outage::Refused, Outage::Hung];
    join_all(both.map(each_rule_says_what_counts)).await;
}

#[tokio::test]
async fn each_rule_says_what_counts_while_redis_answers_by_errors() {
    let both = [Outage::Password, Outage::Script];
    join_all(both.map(each_rule_says_what_counts)).await;
}

#[tokio::test]
async fn each_rule_says_what_counts_while_what_is_answered_makes_no_sense() {
    let both = [Outage::Reply, Outage::Noise];
    join_all(both.map(each_rule_says_what_counts)).await;
}

#[tokio::test]
async fn a_looser_fallback_is_asked_for_nothing_that_redis_denies() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    let rule = json!({ "resource": "/a", "limit": 3, "time_window": 86_400 });
    operator.rule(rule).await;
    let all = [("FALLBACK_PERCENT", "100"), ("CHECK_ANONYMOUS", "allow")];
    let check = operator.container(Function::Check, &all).await;
    let ask = async || {
        let answer = send(&check, &post("eve", "/a", 1)).await;
        answer.body["reason"].as_str().unwrap_or("503").to_owned()
    };
    for _ in 0..3 {
        assert_eq!(ask().await, "rule");
    }
    for _ in 0..20 {
        assert_eq!(ask().await, "limit");
    }
    redis.stop(End::Kill);
    // What Redis has denied is repeated for a second.
    let mut first = ask().await;
    while first == "limit" {
        first = ask().await;
    }
    assert_eq!(first, "rule");
    for _ in 0..2 {
        assert_eq!(ask().await, "rule");
    }
    assert_eq!(ask().await, "store_unavailable");
    redis.restart().unwrap();
    operator.publish().await;
    // What was counted meanwhile is nobody's debt.
    until(async || ask().await != "store_unavailable").await;
    for _ in 0..2 {
        assert_eq!(ask().await, "rule");
    }
    assert_eq!(ask().await, "limit");
}

/// More than a container keeps in mind, each of whom asks once.
const CALLERS: u32 = 10_500;

#[tokio::test]
async fn very_many_callers_do_not_fill_a_container_while_redis_is_out() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    let many = [
        ("IDENTITY", "ip"),
        ("DEFAULT_LIMIT", "10/86400s"),
        ("REDIS_TIMEOUT_MS", "200"),
        ("AWS_LAMBDA_MAX_CONCURRENCY", "4"),
    ];
    let authorizer = operator.container(Function::Authorizer, &many).await;
    let template: Value =
        serde_json::from_str(include_str!("../../events/authorizer-rest.json")).unwrap();
    let ask = async |address: u32| {
        let mut event = template.clone();
        let address = Ipv4Addr::from_bits(0x0a00_0000 + address).to_string();
        event["requestContext"]["identity"]["sourceIp"] = address.into();
        let answer = authorizer.invoke(&event).await.unwrap();
        answer["context"]["decision"].as_str().unwrap().to_owned()
    };
    ask(0).await;
    let before = authorizer.resident_kib();
    redis.stop(End::Kill);
    let part = async |addresses: std::ops::Range<u32>| {
        for address in addresses {
            assert_eq!(ask(address).await, "allowed");
        }
    };
    let third = CALLERS / 3;
    join3(
        part(0..third),
        part(third..2 * third),
        part(2 * third..CALLERS),
    )
    .await;
    let after = authorizer.resident_kib();
    println!("{CALLERS} callers: {before} KiB, then {after} KiB");
    assert!(after < before + 16_384, "{before} KiB, then {after} KiB");
    // Who came first is forgotten, and has a share again; who came last is known to have had it.
    assert_eq!(ask(0).await, "allowed");
    assert_eq!(ask(CALLERS - 1).await, "throttled");
}
