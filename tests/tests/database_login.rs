//! How one gets into the database: over TLS, by a certificate that is trusted, with a password or by IAM.

use std::time::Duration;

use aws::signer::Signer;
use limits::settings::Settings;
use local::servers::{Certificate, Postgres};
use serde_json::{Value, json};
use tests::{Container, Function, certificates, stores};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, NoTls};

use crate::audit::rest;
use crate::iam_database::IamDatabase;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const SESSION: &str = "IQoJb3JpZ2luX2VjE/+x/y==";

async fn psql(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Has a server speak TLS from now on.
async fn speak_tls(server: &Postgres, certificate: &Certificate) {
    let psql = psql(&server.url()).await;
    for (name, text) in [
        ("server.key", &certificate.key),
        ("server.crt", &certificate.certificate),
    ] {
        // The server writes the files, as only its own are ones that it trusts.
        let lines = text.lines().collect::<Vec<_>>().join("'), ('");
        let write = format!("COPY (VALUES ('{lines}')) TO PROGRAM 'umask 077 && cat > {name}'");
        psql.batch_execute(&write).await.unwrap();
    }
    psql.batch_execute("ALTER SYSTEM SET ssl = on")
        .await
        .unwrap();
    psql.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    while psql
        .query_one("SHOW ssl", &[])
        .await
        .unwrap()
        .get::<_, String>(0)
        != "on"
    {
        sleep(Duration::from_millis(5)).await;
    }
}

/// A container of `rules`, and how it answers a read.
async fn read(variables: &[(&str, &str)]) -> (Container, Value) {
    let container = Container::start(Function::Rules, variables.iter().copied()).await;
    let answer = container
        .invoke(&rest("GET", "/ratelimit/rules", &Value::Null))
        .await;
    let answer = answer.unwrap_or_else(|error| panic!("{error}\n{}", container.logs()));
    (container, answer)
}

async fn is_refused(variables: &[(&str, &str)], reason: &str) {
    let (container, answer) = read(variables).await;
    assert_eq!(answer["statusCode"], 503, "{answer}");
    container.logged(reason).await;
}

struct File(std::path::PathBuf);

impl File {
    fn with(text: &str) -> Self {
        let folder = local::servers::temporary_folder("trusted").unwrap();
        std::fs::write(folder.join("trusted.pem"), text).unwrap();
        Self(folder)
    }

    fn path(&self) -> String {
        self.0.join("trusted.pem").display().to_string()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_server_is_spoken_to_over_tls_if_chain_and_name_of_its_certificate_are_right() {
    let server = Postgres::start().unwrap();
    let certificate = certificates::of(&["localhost"]);
    let trusted = File::with(&certificate.authority);
    let others = File::with(&certificates::of_loopback().authority);
    let trusted = trusted.path();
    speak_tls(&server, &certificate).await;
    let by_address = server.url();
    let url = by_address.replace("127.0.0.1", "localhost");
    let require = format!("{url}?sslmode=require");

    let variables = [
        ("DATABASE_URL", require.as_str()),
        ("SSL_CERT_FILE", &trusted),
    ];
    let migrate = Container::start(Function::Migrate, variables).await;
    let applied = migrate.invoke(&json!({})).await.unwrap();
    assert_ne!(applied["applied"], json!([]));
    let psql = psql(&server.url()).await;
    // Where the URL does not say, TLS is what a server that has it is spoken to by.
    for url in [&require, &url] {
        let (container, answer) = read(&[("DATABASE_URL", url), ("SSL_CERT_FILE", &trusted)]).await;
        assert_eq!(answer["statusCode"], 200, "{answer}");
        let spoken = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'weir'";
        let spoken = psql.query(spoken, &[]).await.unwrap();
        assert!(!spoken.is_empty());
        assert!(spoken.iter().all(|row| row.get(0)), "{url}");
        drop(container);
    }

    let untrusted = "invalid peer certificate";
    for url in [&require, &url] {
        is_refused(
            &[("DATABASE_URL", url), ("SSL_CERT_FILE", &others.path())],
            untrusted,
        )
        .await;
    }
    is_refused(&[("DATABASE_URL", &require)], untrusted).await;
    let by_address = format!("{by_address}?sslmode=require");
    is_refused(
        &[("DATABASE_URL", &by_address), ("SSL_CERT_FILE", &trusted)],
        "certificate not valid for name",
    )
    .await;
    let variables = [("DATABASE_URL", require.as_str())];
    let migrate = Container::start(Function::Migrate, variables).await;
    let refused = migrate.invoke(&json!({})).await.unwrap_err();
    assert_eq!(refused.error_type, "DatabaseOut");
    assert!(refused.error_message.contains(untrusted), "{refused}");

    let disable = format!("{url}?sslmode=disable");
    let (_container, answer) = read(&[("DATABASE_URL", &disable)]).await;
    assert_eq!(answer["statusCode"], 200, "in plain, as it was asked for");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let url = stores::database().await;
    let require = format!("{url}?sslmode=require");
    is_refused(&[("DATABASE_URL", &require)], "server does not support TLS").await;
    let (_container, answer) = read(&[("DATABASE_URL", &url)]).await;
    assert_eq!(answer["statusCode"], 200);
}

fn credentials<'a>(url: &'a str, secret: &'a str, trusted: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("DATABASE_URL", url),
        ("DATABASE_AUTH", "iam"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_SESSION_TOKEN", SESSION),
        ("SSL_CERT_FILE", trusted),
    ]
}

/// The role that the database knows.
fn signer() -> Signer {
    let variables = credentials("", SECRET, "");
    let lookup = |name: &str| {
        let region = (name == "AWS_REGION").then_some("us-east-1");
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).or(region).map(str::to_owned)
    };
    let mut settings = Settings::new(&lookup);
    let signer = Signer::from_settings(&mut settings);
    settings.finish().unwrap();
    signer.unwrap()
}

#[tokio::test]
async fn by_iam_every_connection_has_a_token_of_its_own() {
    let behind = stores::empty_database().await;
    let certificate = certificates::of_loopback();
    let trusted = File::with(&certificate.authority);
    let trusted = trusted.path();
    let database = IamDatabase::start(&behind, signer(), Some(&certificate)).await;
    let url = database.url("weir.admin");
    let variables = credentials(&url, SECRET, &trusted);

    let migrate = Container::start(Function::Migrate, variables.clone()).await;
    migrate.invoke(&json!({})).await.unwrap();
    let (rules, answer) = read(&variables).await;
    assert_eq!(answer["statusCode"], 200, "{answer}");
    // Tokens tell seconds.
    let psql = psql(&behind).await;
    let newest = |logins: &[crate::iam_database::Login]| logins.last().unwrap().password.clone();
    let first = newest(&database.logins());
    let end = Instant::now() + Duration::from_secs(20);
    let mut made = 0;
    while newest(&database.logins()) == first {
        assert!(Instant::now() < end, "one token for all");
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'weir' AND datname = current_database()";
        psql.execute(cut, &[]).await.unwrap();
        let rule = json!({"resource": format!("/{made}"), "limit": 1, "time_window": 1});
        let answer = rules.invoke(&rest("POST", "/ratelimit/rules", &rule)).await;
        assert_eq!(answer.unwrap()["statusCode"], 201);
        made += 1;
        sleep(Duration::from_millis(100)).await;
    }
    let logins = database.logins();
    assert!(logins.len() >= 3);
    for login in &logins {
        assert!(login.believed && login.user == "weir.admin", "{login:?}");
    }

    // Another role is told so, and nobody else is told what it said.
    let (other, answer) = read(&credentials(&url, "another", &trusted)).await;
    assert_eq!(answer["statusCode"], 503, "{answer}");
    other.logged("PAM authentication failed").await;
    assert!(!database.logins().last().unwrap().believed);
    for told in [rules.logs(), other.logs(), answer.to_string()] {
        assert!(
            !told.contains("X-Amz") && !told.contains(SESSION) && !told.contains(SECRET),
            "{told}"
        );
    }
}

#[tokio::test]
async fn by_iam_nothing_is_told_to_a_server_that_is_not_trusted() {
    let trusted = File::with(&certificates::of_loopback().authority);
    let trusted = trusted.path();
    let behind = stores::postgres().url();
    let plain = IamDatabase::start(&behind, signer(), None).await;
    let variables = credentials("", SECRET, &trusted);
    let at = |url: String| {
        let (url, mut variables) = (url.leak() as &str, variables.clone());
        variables[0].1 = url;
        variables
    };
    is_refused(&at(plain.url("weir")), "server does not support TLS").await;
    let other = certificates::of_loopback();
    let untrusted = IamDatabase::start(&behind, signer(), Some(&other)).await;
    is_refused(&at(untrusted.url("weir")), "invalid peer certificate").await;
    assert_eq!((plain.logins(), untrusted.logins()), (vec![], vec![]));
}
