//! Servers that answer, and what they answer is no truth.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use local::servers::Redis;
use serde_json::{Value, json};
use tests::{Container, Function, Liar, Operator, Told};

use crate::check::{Answer, event, send};

async fn ask(container: &Container, client: &str) -> Answer {
    let path = format!("/ratelimit/status/{client}");
    let mut event = event("POST", &path, "", None);
    event["isBase64Encoded"] = false.into();
    event["body"] = r#"{"resource": "/x"}"#.into();
    send(container, &event).await
}

/// Of what a container grants by itself, no more than a tenth is ever left.
fn counted(answer: &Answer) -> bool {
    answer.body["remaining"].as_u64() > Some(10_000)
}

async fn until_counted(container: &Container, client: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    while !counted(&ask(container, client).await) {
        assert!(Instant::now() < end, "{}", container.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn rule(limit: u64) -> Value {
    json!({ "resource": "*", "limit": limit, "time_window": 31_622_400, "algorithm": "fixed_window" })
}

/// Whether a command is the question of a decision.
fn decides(words: &[String]) -> bool {
    words[0].starts_with("EVAL")
        && words
            .iter()
            .any(|word| ["take", "hold", "look"].contains(&word.as_str()))
}

/// A container of `check` before which a liar stands; `scheme` is that of its URL.
async fn scene(scheme: &str) -> (Redis, Liar, Operator, Container) {
    let redis = Redis::start().unwrap();
    let liar = Liar::before(redis.port()).await;
    let port = liar.port();
    if scheme.ends_with("cluster") {
        liar.tells(move |words| of_cluster(words, port));
    }
    let operator = Operator::at(&format!("{scheme}://127.0.0.1:{port}")).await;
    operator.rule(rule(100_000)).await;
    let own = [("CHECK_ANONYMOUS", "allow"), ("REDIS_TIMEOUT_MS", "200")];
    let container = operator.container(Function::Check, &own).await;
    until_counted(&container, "eve").await;
    (redis, liar, operator, container)
}

/// The one that keeps all slots.
fn of_cluster(words: &[String], port: u16) -> Told {
    if words[0] != "CLUSTER" {
        return Told::Truth;
    }
    let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
    Told::Lie(slots.into())
}

#[tokio::test]
async fn nothing_that_a_server_answers_breaks_a_container() {
    let (_redis, liar, _operator, container) = scene("redis").await;
    let nested = "*1\r\n".repeat(100_000);
    for lie in [
        ":9223372036854775807\r\n",
        ":-9223372036854775808\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "+OK\r\n",
        "*2\r\n:0\r\n:9223372036854775807\r\n",
        "*2\r\n:-1\r\n:9223372036854775807\r\n",
        "*2\r\n:9223372036854775807\r\n:-9223372036854775808\r\n",
        "*2\r\n:0\r\n-ERR half\r\n",
        "*2\r\n:0\r\n$-1\r\n",
        "*2\r\n*2\r\n:0\r\n:0\r\n*1\r\n:0\r\n",
        "$20\r\n18446744073709551615\r\n",
        "$21\r\n184467440737095516150\r\n",
        "-\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "-ASK 1 127.0.0.1:1\r\n",
        "-TRYAGAIN\r\n",
        "-NOSCRIPT\r\n",
        "-WRONGTYPE of something\r\n",
        "*2147483647\r\n",
        "*9223372036854775807\r\n",
        "$9223372036854775807\r\n",
        "$-9223372036854775808\r\n",
        "$1000000\r\nhalf",
        ":1",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        ":0\r\n:0\r\n:0\r\n:0\r\n",
        nested.as_str(),
    ] {
        let told = lie.to_owned();
        liar.tells(move |words| match decides(words) {
            true => Told::Lie(told.clone().into()),
            false => Told::Truth,
        });
        for _ in 0..3 {
            let begun = Instant::now();
            let answer = ask(&container, "eve").await;
            let shown = &lie[..lie.len().min(40)];
            assert!([200, 429, 503].contains(&answer.status), "{shown:?}");
            // A decision waits for 200 ms, and some for a look at what may have been lost.
            assert!(begun.elapsed() < Duration::from_secs(2), "{shown:?}");
        }
        liar.tells(|_| Told::Truth);
        until_counted(&container, "eve").await;
    }
    assert!(container.is_alive() && container.resident_kib() < 100 << 10);
}

#[tokio::test]
async fn no_number_of_servers_that_send_one_on_fills_a_container() {
    let (_redis, liar, _operator, container) = scene("redis+cluster").await;
    let port = liar.port();
    let before = container.resident_kib();
    let n = AtomicU64::new(0);
    liar.tells(move |words| {
        if !decides(words) {
            return of_cluster(words, port);
        }
        let n = n.fetch_add(1, Ordering::Relaxed);
        let kind = if n.is_multiple_of(2) { "MOVED" } else { "ASK" };
        Told::Lie(format!("-{kind} 1 127.1.{}.{}:{port}\r\n", n / 250, 1 + n % 250).into())
    });
    for n in 0..600 {
        let answer = ask(&container, &format!("client-{n}")).await;
        assert!([200, 429, 503].contains(&answer.status));
    }
    let (open, grown) = (liar.open(), container.resident_kib() - before);
    liar.tells(move |words| of_cluster(words, port));
    until_counted(&container, "eve").await;
    assert!(
        open < 600 && grown < 40 << 10,
        "{open} {grown}\n{}",
        container.logs()
    );
}

#[tokio::test]
async fn a_server_that_hangs_is_left_alone_though_it_keeps_nothing_yet() {
    let (redis, liar, _operator, container) = scene("redis+cluster").await;
    let port = liar.port();
    // Where slots are on their way to.
    let hung = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = hung.local_addr().unwrap();
    liar.tells(move |words| match decides(words) {
        true => Told::Lie(format!("-ASK 1 {to}\r\n").into()),
        false => of_cluster(words, port),
    });
    let begun = Instant::now();
    for _ in 0..40 {
        ask(&container, "eve").await;
    }
    let took = begun.elapsed();
    drop(redis);
    assert!(took < Duration::from_secs(40 * 200 / 1000 / 2), "{took:?}");
}
