//! Clusters, sentinels, TLS, users and a pool in front of Postgres are what stories take them for.

use std::sync::Arc;
use std::time::Duration;

use local::servers::{End, PgBouncer, Redis, Setup, User};
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tests::console::ask;
use tests::{RedisCluster, Sentinels, certificates, stores};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::NoTls;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Long enough for whatever would come.
const MOMENT: Duration = Duration::from_millis(300);

fn named(name: &str) -> User {
    User {
        name: Some(name.to_owned()),
        password: "letmein".to_owned(),
    }
}

fn code(error: &RedisError) -> &str {
    error.code().unwrap_or("none")
}

#[tokio::test]
async fn a_cluster_serves_each_slot_at_one_node_and_its_replicas_take_over() {
    let mut cluster = RedisCluster::start(1).await;
    assert_eq!(cluster.size(), 6);
    let slot = cluster.slot_of("{a}").await;
    let primary = cluster.primary_of(slot).await;
    assert_eq!(primary, usize::from(slot / 5462));
    let _: () = ask(cluster.node(primary), "SET {a} 1").await.unwrap();
    let other = cluster.node((primary + 1) % 3);
    let moved: RedisResult<String> = ask(other, "GET {a}").await;
    assert_eq!(code(&moved.unwrap_err()), "MOVED");

    // By request: the primary hands over and becomes a replica.
    let replica = cluster.replicas_of(primary).await[0];
    cluster.fail_over(replica).await;
    assert_eq!(cluster.primary_of(slot).await, replica);
    assert_eq!(cluster.replicas_of(replica).await, [primary]);
    let kept: i32 = ask(cluster.node(replica), "GET {a}").await.unwrap();
    assert_eq!(kept, 1);

    // By its end: its replica takes over, and it comes back as one.
    cluster.node_mut(replica).stop(End::Kill);
    while cluster.primary_of(slot).await == replica {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(cluster.primary_of(slot).await, primary);
    cluster.settled().await;
    let kept: i32 = ask(cluster.node(primary), "GET {a}").await.unwrap();
    assert_eq!(kept, 1);
    cluster.node_mut(replica).restart().unwrap();
    cluster.settled().await;
    assert_eq!(cluster.replicas_of(primary).await, [replica]);

    // By its silence.
    cluster.node_mut(primary).pause();
    while cluster.primary_of(slot).await == primary {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.node_mut(primary).resume();
    cluster.settled().await;
    assert_eq!(cluster.primary_of(slot).await, replica);
}

#[tokio::test]
async fn a_slot_can_be_half_moved_and_the_cluster_says_so() {
    let cluster = RedisCluster::start(0).await;
    let slot = cluster.slot_of("{a}").await;
    let from = cluster.primary_of(slot).await;
    let to = (from + 1) % 3;
    for number in 0..10 {
        let set = format!("SET {{a}}{number} {number}");
        let _: () = ask(cluster.node(from), &set).await.unwrap();
    }
    let moving = cluster.begin_move(slot, to).await;
    assert_eq!(cluster.move_keys(&moving, 4).await, 4);
    // Each key is at one of the two, and the first sends for the others to the second.
    let mut away = 0;
    for number in 0..10 {
        let get = format!("GET {{a}}{number}");
        match ask::<i32>(cluster.node(from), &get).await {
            Ok(value) => assert_eq!(value, number),
            Err(error) => {
                let kind = error.kind();
                assert_eq!(kind, ErrorKind::Server(ServerErrorKind::Ask), "{error}");
                away += 1;
            }
        }
    }
    assert_eq!(away, 4);
    // A command about keys here and there is for later.
    let all: Vec<String> = (0..10).map(|number| format!("{{a}}{number}")).collect();
    let several: RedisResult<Vec<i32>> =
        ask(cluster.node(from), &format!("MGET {}", all.join(" "))).await;
    assert_eq!(code(&several.unwrap_err()), "TRYAGAIN");

    cluster.end_move(moving).await;
    cluster.settled().await;
    assert_eq!(cluster.primary_of(slot).await, to);
    for number in 0..10 {
        let get = format!("GET {{a}}{number}");
        let value: i32 = ask(cluster.node(to), &get).await.unwrap();
        assert_eq!(value, number);
    }
    let gone: RedisResult<i32> = ask(cluster.node(from), "GET {a}0").await;
    assert_eq!(code(&gone.unwrap_err()), "MOVED");

    // Many at once; those that are there already stay.
    cluster.move_slots(slot - 5..=slot + 5, from).await;
    for each in slot - 5..=slot + 5 {
        assert_eq!(cluster.primary_of(each).await, from, "{each}");
    }
    let value: i32 = ask(cluster.node(from), "GET {a}9").await.unwrap();
    assert_eq!(value, 9);
}

#[tokio::test]
async fn a_cluster_talks_tls_to_its_named_user_alone() {
    let setup = Setup {
        user: Some(named("weir")),
        tls: Some(certificates::of_loopback()),
        ..Setup::default()
    };
    let cluster = RedisCluster::start_as(1, &setup).await;
    let ports: Vec<String> = (0..6)
        .map(|index| format!("127.0.0.1:{}", cluster.node(index).port()))
        .collect();
    let url = format!("rediss+cluster://weir:letmein@{}", ports.join(","));
    assert_eq!(cluster.url(), url);
    // Who asks by TLS is sent on to where TLS is.
    let slot = cluster.slot_of("{a}").await;
    let primary = cluster.primary_of(slot).await;
    let told = tls(cluster.node((primary + 1) % 3), "GET {a}").await;
    let address = format!("-MOVED {slot} 127.0.0.1:{}", cluster.node(primary).port());
    assert_eq!(told, address);
    // Slots move between nodes that know their user.
    let _: () = ask(cluster.node(primary), "SET {a} 7").await.unwrap();
    let to = (primary + 1) % 3;
    cluster.move_slots(slot..=slot, to).await;
    assert_eq!(tls(cluster.node(to), "GET {a}").await, "$1");
}

#[tokio::test]
async fn sentinels_tell_the_primary_and_put_another_in_its_place() {
    let mut all = Sentinels::start(2).await;
    let first = all.primary().await;
    assert_eq!(first, 0);
    let url = all.url();
    assert!(url.starts_with("redis+sentinel://127.0.0.1:") && url.ends_with("/weir"));
    let _: () = ask(all.node(first), "SET a 1").await.unwrap();
    all.settled().await;

    // With nothing wrong.
    let second = all.fail_over().await;
    assert_ne!(second, first);
    let kept: i32 = ask(all.node(second), "GET a").await.unwrap();
    assert_eq!(kept, 1);
    all.settled().await;
    let denied: RedisResult<()> = ask(all.node(first), "SET a 2").await;
    assert_eq!(code(&denied.unwrap_err()), "READONLY");

    // By its end.
    all.node_mut(second).stop(End::Kill);
    let third = all.primary_after(second).await;
    let kept: i32 = ask(all.node(third), "GET a").await.unwrap();
    assert_eq!(kept, 1);

    // One sentinel alone puts nobody in anybody's place.
    for index in [0, 1] {
        all.sentinel_mut(index).stop(End::Kill);
    }
    all.node_mut(third).stop(End::Kill);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(all.primary().await, third);
}

#[tokio::test]
async fn a_redis_with_tls_shows_a_certificate_of_its_authority_and_talks_nothing_else() {
    let redis = Redis::start_as(&Setup {
        tls: Some(certificates::of_loopback()),
        ..Setup::default()
    });
    let mut redis = redis.unwrap();
    assert_eq!(redis.url(), format!("rediss://127.0.0.1:{}", redis.port()));
    assert_eq!(tls(&redis, "PING").await, "+PONG");
    redis.stop(End::Kill);
    redis.restart().unwrap();
    assert_eq!(tls(&redis, "PING").await, "+PONG");

    let mut plain = TcpStream::connect(("127.0.0.1", redis.port()))
        .await
        .unwrap();
    plain.write_all(b"PING\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(MOMENT, plain.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"+"), "{answer:?}");

    // Another authority's word is not enough.
    let other = certificates::of_loopback().authority;
    let refused = tls_by(&other, &redis, "PING").await.unwrap_err();
    assert!(
        refused.to_string().contains("invalid peer certificate"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_redis_with_a_user_wants_the_password() {
    let default = User {
        name: None,
        password: "letmein".to_owned(),
    };
    for user in [default, named("weir")] {
        let setup = Setup {
            user: Some(user.clone()),
            ..Setup::default()
        };
        let redis = Redis::start_as(&setup).unwrap();
        let name = user.name.unwrap_or_default();
        let address = format!("127.0.0.1:{}", redis.port());
        assert_eq!(redis.url(), format!("redis://{name}:letmein@{address}"));
        let pong: String = ask(&redis, "PING").await.unwrap();
        assert_eq!(pong, "PONG");
        for wrong in [
            String::new(),
            format!("{name}:wrong@"),
            ":wrong@".to_owned(),
        ] {
            let client = redis::Client::open(format!("redis://{wrong}{address}")).unwrap();
            let asked = async {
                let mut connection = client.get_multiplexed_async_connection().await?;
                redis::cmd("PING")
                    .query_async::<String>(&mut connection)
                    .await
            };
            let refused = asked.await;
            assert!(refused.is_err(), "{wrong:?} may talk: {refused:?}");
        }
    }
}

/// The first line of the answer to a command over TLS.
async fn tls(redis: &Redis, command: &str) -> String {
    let authority = std::fs::read_to_string(redis.authority().unwrap()).unwrap();
    tls_by(&authority, redis, command).await.unwrap()
}

async fn tls_by(authority: &str, redis: &Redis, command: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let stream = TcpStream::connect(("127.0.0.1", redis.port())).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = connector.connect(name, stream).await?;
    let login = match redis.user() {
        None => String::new(),
        Some(user) => format!(
            "AUTH {} {}\r\n",
            user.name.as_deref().unwrap_or("default"),
            user.password
        ),
    };
    let asked = format!("{login}{command}\r\nQUIT\r\n");
    stream.write_all(asked.as_bytes()).await?;
    let mut answer = String::new();
    // It closes without a word, which TLS calls an error.
    let _ = stream.read_to_string(&mut answer).await;
    let mut lines = answer.lines().skip(usize::from(!login.is_empty()));
    Ok(lines.next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn behind_a_pgbouncer_many_clients_share_a_session_and_a_transaction_has_it_for_itself() {
    let postgres = stores::postgres();
    let one = [("default_pool_size", "1")];
    let mut pool = PgBouncer::start_with(postgres, &one).unwrap();
    let session = async |client: &tokio_postgres::Client| -> i32 {
        let row = client.simple_query("SELECT pg_backend_pid()").await;
        let rows = row.unwrap();
        let pid = rows.iter().find_map(|row| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        pid.unwrap().parse().unwrap()
    };
    let connect = async |url: &str| {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok::<_, tokio_postgres::Error>(client)
    };
    let url = pool.url_of("postgres");
    let (a, b) = (connect(&url).await.unwrap(), connect(&url).await.unwrap());
    assert_eq!(session(&a).await, session(&b).await);
    a.batch_execute("BEGIN").await.unwrap();
    let waiting = tokio::time::timeout(MOMENT, b.batch_execute("SELECT 1")).await;
    assert!(waiting.is_err(), "a transaction shares its session");
    a.batch_execute("COMMIT").await.unwrap();
    b.batch_execute("SELECT 1").await.unwrap();

    let wrong = url.replace(postgres.password(), "wrong");
    assert!(connect(&wrong).await.is_err());

    pool.stop(End::Kill);
    assert!(connect(&url).await.is_err());
    pool.restart().unwrap();
    session(&connect(&url).await.unwrap()).await;
}
