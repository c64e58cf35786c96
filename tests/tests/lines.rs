//! A line is the network that stories take it for.

use std::io::ErrorKind;
use std::time::Duration;

use local::servers::Redis;
use tests::{Line, stores};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_postgres::NoTls;

/// Longer than anything here should take on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for whatever would come.
const MOMENT: Duration = Duration::from_millis(300);

async fn connect(line: &Line) -> std::io::Result<TcpStream> {
    let connected = TcpStream::connect(("127.0.0.1", line.port()));
    timeout(PATIENCE, connected).await.unwrap()
}

async fn send(connection: &mut TcpStream) {
    connection.write_all(b"PING\r\n").await.unwrap();
}

async fn answer(connection: &mut TcpStream) -> std::io::Result<[u8; 7]> {
    let mut answer = [0; 7];
    let read = timeout(PATIENCE, connection.read_exact(&mut answer));
    read.await.unwrap().map(|_| answer)
}

async fn asks(line: &Line) -> TcpStream {
    let mut connection = connect(line).await.unwrap();
    send(&mut connection).await;
    assert_eq!(answer(&mut connection).await.unwrap(), *b"+PONG\r\n");
    connection
}

async fn hears_nothing(connection: &mut TcpStream) {
    let mut byte = [0];
    let heard = timeout(MOMENT, connection.read(&mut byte)).await;
    assert!(heard.is_err(), "it heard {heard:?}");
}

async fn is_reset(connection: &mut TcpStream) {
    let error = answer(connection).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn what_passes_a_line_is_what_was_sent_however_much_it_is_and_on_many_connections() {
    let redis = Redis::start().unwrap();
    let line = Line::to(redis.port()).await;
    let url = line.through(&redis.url());
    assert_eq!(url, format!("redis://127.0.0.1:{}", line.port()));
    let large = "x".repeat(5 << 20);
    let mut connections = Vec::new();
    for number in 0..20 {
        let client = redis::Client::open(url.as_str()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        connection.set_response_timeout(PATIENCE);
        let set = redis::cmd("SET").arg(number).arg(&large).to_owned();
        let _: () = set.query_async(&mut connection).await.unwrap();
        connections.push(connection);
    }
    for (number, connection) in connections.iter_mut().enumerate() {
        let get = redis::cmd("GET").arg(number).to_owned();
        let got: String = get.query_async(connection).await.unwrap();
        assert!(got == large, "{number}");
    }
}

#[tokio::test]
async fn a_silent_line_passes_nothing_and_tells_nobody_and_then_all_of_it() {
    let redis = Redis::start().unwrap();
    let line = Line::to(redis.port()).await;
    let mut old = asks(&line).await;
    line.silence().await;
    send(&mut old).await;
    hears_nothing(&mut old).await;
    let new = TcpStream::connect(("127.0.0.1", line.port()));
    let new = timeout(MOMENT, new).await;
    assert!(new.is_err(), "it was connected: {new:?}");
    line.restore().await;
    assert_eq!(answer(&mut old).await.unwrap(), *b"+PONG\r\n");
    asks(&line).await;
}

#[tokio::test]
async fn a_server_that_ends_behind_a_silent_line_is_not_heard_of_until_the_line_is_back() {
    let redis = Redis::start().unwrap();
    let line = Line::to(redis.port()).await;
    let mut connection = asks(&line).await;
    line.silence().await;
    drop(redis);
    hears_nothing(&mut connection).await;
    line.restore().await;
    let mut byte = [0];
    let heard = timeout(PATIENCE, connection.read(&mut byte)).await.unwrap();
    assert!(matches!(heard, Ok(0) | Err(_)), "{heard:?}");
}

#[tokio::test]
async fn a_cut_resets_what_is_connected_and_nothing_else() {
    let redis = Redis::start().unwrap();
    let line = Line::to(redis.port()).await;
    let mut old = [asks(&line).await, asks(&line).await];
    line.cut();
    for connection in &mut old {
        is_reset(connection).await;
    }
    asks(&line).await;
}

#[tokio::test]
async fn a_lost_connection_stays_open_and_passes_nothing_ever_again() {
    let redis = Redis::start().unwrap();
    let line = Line::to(redis.port()).await;
    let mut old = asks(&line).await;
    line.lose();
    send(&mut old).await;
    hears_nothing(&mut old).await;
    asks(&line).await;
    hears_nothing(&mut old).await;
}

#[tokio::test]
async fn a_line_that_refuses_resets_what_there_is_and_lets_nobody_in() {
    let redis = Redis::start().unwrap();
    let line = Line::to(redis.port()).await;
    let mut old = asks(&line).await;
    line.refuse().await;
    is_reset(&mut old).await;
    let refused = connect(&line).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    line.restore().await;
    asks(&line).await;
}

#[tokio::test]
async fn a_delay_is_for_each_answer_and_does_not_add_up() {
    let redis = Redis::start().unwrap();
    let line = Line::to(redis.port()).await;
    let mut connection = asks(&line).await;
    let delay = Duration::from_secs(1);
    line.delay(delay);
    let begin = Instant::now();
    for _ in 0..10 {
        send(&mut connection).await;
        // Each as a piece of its own.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..10 {
        answer(&mut connection).await.unwrap();
    }
    let took = begin.elapsed();
    assert!(took >= delay && took < delay * 5, "{took:?}");
    line.restore().await;
    let begin = Instant::now();
    send(&mut connection).await;
    answer(&mut connection).await.unwrap();
    assert!(begin.elapsed() < delay);
}

#[tokio::test]
async fn a_line_to_postgres_is_silent_and_comes_back() {
    let postgres = stores::postgres();
    let line = Line::to(postgres.port()).await;
    let url = line.through(&postgres.url());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.query_one("SELECT 1", &[]).await.unwrap();
    line.silence().await;
    let late = client.query_one("SELECT 1", &[]);
    assert!(timeout(MOMENT, late).await.is_err());
    line.restore().await;
    client.query_one("SELECT 1", &[]).await.unwrap();
}
