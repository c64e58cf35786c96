//! `migrate` as CloudFormation asks it: whatever becomes of it, the stack is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use futures::future::join_all;
use limits_postgres::Database;
use local::servers::Postgres;
use serde_json::{Value, json};
use tests::{Container, Function, Region, stores};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls};

use crate::metrics::Told;

/// What stands for S3. Dropping it closes the port.
pub(crate) struct Bucket {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
    server: JoinHandle<()>,
}

/// A file that was put.
#[derive(Debug, Clone)]
struct Received {
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Bucket {
    /// Answers in turn with these statuses, and then with 200.
    pub(crate) async fn start(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let shelf = Arc::clone(&received);
        let statuses = statuses.to_vec();
        let app = Router::new().fallback(move |request: Request| {
            let (shelf, statuses) = (Arc::clone(&shelf), statuses.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                let mut shelf = shelf.lock().unwrap();
                let status = statuses.get(shelf.len()).copied().unwrap_or(200);
                shelf.push(Received {
                    method: parts.method,
                    target: parts.uri.to_string(),
                    headers: parts.headers,
                    body,
                });
                let elsewhere = [("location", "/elsewhere")];
                (StatusCode::from_u16(status).unwrap(), elsewhere)
            }
        });
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            url: format!("http://{address}/stack%7Cresource?X-Amz-Signature=hush"),
            received,
            server,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The only file that was put here: the answer.
    fn told(&self) -> Value {
        let received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        read(&received[0])
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// An answer, put as S3 and CloudFormation want it.
fn read(received: &Received) -> Value {
    assert_eq!(received.method, Method::PUT);
    assert_eq!(received.target, "/stack%7Cresource?X-Amz-Signature=hush");
    assert_eq!(received.headers["content-type"], "");
    assert!(received.body.len() <= 4096, "{}", received.body.len());
    let told: Value = serde_json::from_slice(&received.body).unwrap();
    for (name, value) in [
        (
            "StackId",
            "arn:aws:cloudformation:us-east-1:123456789012:stack/weir/01234567-89ab-4def-8123-456789abcdef",
        ),
        ("RequestId", "55555555-6666-4777-8888-999999999999"),
        ("LogicalResourceId", "Schema"),
    ] {
        assert_eq!(told[name], value);
    }
    told
}

/// What CloudFormation asks.
pub(crate) fn deploy(request: &str, bucket: &Bucket, properties: Value) -> Value {
    let event = include_str!("../../events/migrate-deploy.json");
    let mut event: Value = serde_json::from_str(event).unwrap();
    event["RequestType"] = request.into();
    event["ResponseURL"] = bucket.url().into();
    event["ResourceProperties"] = properties;
    event
}

async fn migrate(url: &str) -> Container {
    Container::start(Function::Migrate, [("DATABASE_URL", url)]).await
}

/// Sends a request and gives what CloudFormation is told, which is what the function answers too.
async fn ask(migrate: &Container, request: &str, properties: Value) -> Value {
    let bucket = Bucket::start(&[]).await;
    let answered = migrate.invoke(&deploy(request, &bucket, properties)).await;
    let answered = answered.unwrap_or_else(|error| panic!("{error}\n{}", migrate.logs()));
    let told = bucket.told();
    assert_eq!(answered, told);
    assert!(!migrate.logs().contains("hush"), "{}", migrate.logs());
    told
}

async fn psql(config: Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The URL of the same database for another role, which is given a password.
async fn login(url: &str, role: &str) -> Config {
    let mut config: Config = url.parse().unwrap();
    let admin = psql(config.clone()).await;
    let statement = "SELECT format('ALTER ROLE %I PASSWORD ''of-a-role''', $1::text)";
    let statement: String = admin.query_one(statement, &[&role]).await.unwrap().get(0);
    admin.batch_execute(&statement).await.unwrap();
    config.user(role).password("of-a-role");
    config
}

#[tokio::test]
async fn a_stack_is_created_updated_and_deleted_and_told_each_time() {
    let url = stores::empty_database().await;
    let migrate = migrate(&url).await;
    let created = ask(&migrate, "Create", json!({})).await;
    assert_eq!(created["Status"], "SUCCESS", "{created}");
    let applied = created["Data"]["Applied"].as_str().unwrap();
    assert!(
        applied.starts_with("V1__") && applied.contains(",V2__"),
        "{applied}"
    );

    // What it was called when it was created stays its name for good.
    let bucket = Bucket::start(&[]).await;
    let mut update = deploy("Update", &bucket, json!({"Version": "2"}));
    update["PhysicalResourceId"] = created["PhysicalResourceId"].clone();
    update["OldResourceProperties"] = json!({"Version": "1"});
    migrate.invoke(&update).await.unwrap();
    let updated = bucket.told();
    assert_eq!(updated["Status"], "SUCCESS", "{updated}");
    assert_eq!(updated["Data"]["Applied"], "");
    assert_eq!(updated["PhysicalResourceId"], created["PhysicalResourceId"]);

    let bucket = Bucket::start(&[]).await;
    let mut delete = deploy("Delete", &bucket, json!({"DatabaseRole": 5}));
    delete["PhysicalResourceId"] = "as it was called once".into();
    migrate.invoke(&delete).await.unwrap();
    let deleted = bucket.told();
    assert_eq!(deleted["Status"], "SUCCESS", "{deleted}");
    assert_eq!(deleted["PhysicalResourceId"], "as it was called once");
    let tables = psql(url.parse().unwrap()).await;
    let rows = tables.query("SELECT FROM head", &[]).await.unwrap();
    assert_eq!(rows.len(), 1, "nothing was dropped");
}

#[tokio::test]
async fn a_failure_is_told_too() {
    // Nobody listens there.
    let migrate = migrate("postgres://weir:password-of-weir@127.0.0.1:1/weir").await;
    let told = ask(&migrate, "Create", json!({})).await;
    assert_eq!(told["Status"], "FAILED");
    let reason = told["Reason"].as_str().unwrap();
    assert!(reason.starts_with("the database is out"), "{reason}");
    assert!(reason.chars().count() <= 400 && !reason.contains("password-of-weir"));
    // A stack that cannot be made is taken away again, whatever is out.
    let told = ask(&migrate, "Delete", json!({})).await;
    assert_eq!(told["Status"], "SUCCESS");

    let bucket = Bucket::start(&[]).await;
    for (property, value) in [
        ("DatabaseRole", json!(["weir"])),
        ("CanaryPrincipal", json!({"Ref": "Role"})),
    ] {
        let told = ask(&migrate, "Create", json!({ property: value })).await;
        assert_eq!(told["Status"], "FAILED");
        let reason = told["Reason"].as_str().unwrap();
        assert_eq!(reason, format!("{property} must be a text"));
    }
    // By hand a failure is a failure.
    let failed = migrate.invoke(&json!({})).await.unwrap_err();
    assert_eq!(failed.error_type, "DatabaseOut");
    // Nobody can be told.
    let mut event = deploy("Create", &bucket, json!({}));
    event["ResponseURL"] = "http://bucket.example/?X-Amz-Signature=hush".into();
    let failed = migrate.invoke(&event).await.unwrap_err();
    assert_eq!(failed.error_type, "CloudFormationNotTold");
    assert!(!failed.error_message.contains("hush"), "{failed}");
    event["ResponseURL"] = json!(5);
    let failed = migrate.invoke(&event).await.unwrap_err();
    assert_eq!(failed.error_type, "BadEvent");
    assert!(bucket.received().is_empty());
    // Each once, also where two things went wrong.
    migrate.shut_down();
    assert_eq!(Told::by(&migrate).sum("MigrationFailures"), 6);
}

#[tokio::test]
async fn a_stack_is_told_before_the_time_of_the_function_is_over() {
    let mut server = Postgres::start().unwrap();
    let migrate = migrate(&server.url()).await;
    // It accepts connections, and answers nothing: the migrations wait for their turn.
    let (holder, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = "SELECT pg_advisory_lock(8465728101)";
    holder.batch_execute(lock).await.unwrap();
    let bucket = Bucket::start(&[]).await;
    let event = deploy("Create", &bucket, json!({}));
    let answered = migrate.invoke_within(&event, Duration::from_secs(6)).await;
    answered.unwrap_or_else(|error| panic!("{error}\n{}", migrate.logs()));
    let told = bucket.told();
    assert_eq!(told["Status"], "FAILED");
    let reason = told["Reason"].as_str().unwrap();
    assert!(reason.starts_with("not done within"), "{reason}");
    drop(holder);
    // The next try finds its turn.
    let told = ask(&migrate, "Create", json!({})).await;
    assert_eq!(told["Status"], "SUCCESS", "{told}");
    server.stop(local::servers::End::Kill);
}

#[tokio::test]
async fn s3_may_refuse_for_a_while_and_sends_nobody_elsewhere() {
    let url = stores::database().await;
    let migrate = migrate(&url).await;
    let bucket = Bucket::start(&[503, 307]).await;
    migrate
        .invoke(&deploy("Update", &bucket, json!({})))
        .await
        .unwrap();
    let received = bucket.received();
    assert_eq!(received.len(), 3, "{received:?}");
    for one in &received {
        assert_eq!(read(one)["Status"], "SUCCESS");
    }
    let bucket = Bucket::start(&[403; 20]).await;
    let failed = migrate.invoke(&deploy("Update", &bucket, json!({}))).await;
    let failed = failed.unwrap_err();
    assert_eq!(failed.error_type, "CloudFormationNotTold", "{failed}");
    assert!((2..10).contains(&bucket.received().len()));
}

#[tokio::test]
async fn the_functions_do_all_that_they_do_as_their_role_and_nothing_more() {
    let role = stores::unique("functions");
    let region = Region::new().await;
    let url = region.variable("DATABASE_URL").to_owned();
    let migrate = migrate(&url).await;
    for request in ["Create", "Update"] {
        let told = ask(&migrate, request, json!({"DatabaseRole": role})).await;
        assert_eq!(told["Status"], "SUCCESS", "{told}");
    }
    let config = login(&url, &role).await;
    let password = url.split([':', '@']).nth(2).unwrap();
    let user = url.split("//").nth(1).unwrap().split(':').next().unwrap();
    let as_role = url.replace(
        &format!("{user}:{password}@"),
        &format!("{role}:of-a-role@"),
    );
    let region = Region::with(region.variable("REDIS_URL"), &as_role).await;
    let psql = psql(config).await;

    let rules = region.container(Function::Rules).await;
    let clients = region.container(Function::Clients).await;
    let call = async |container: &Container, method, path: &str, body| {
        let event = tests::question::control(method, path, &[], body);
        let answer = container.invoke(&event).await.unwrap();
        let status = answer["statusCode"].as_u64().unwrap();
        assert!((200..300).contains(&status), "{method} {path}: {answer}");
        let body = answer["body"].as_str().unwrap_or_default();
        serde_json::from_str::<Value>(body).unwrap_or_default()
    };
    let draft = json!({"resource": "/a", "client": "eve", "limit": 10, "time_window": 60});
    call(&clients, "POST", "/clients", json!({"client_id": "eve"})).await;
    call(&clients, "PUT", "/clients/eve", json!({"tier": "paid"})).await;
    let key = call(&clients, "POST", "/clients/eve/keys", json!({})).await;
    let rule = call(&rules, "POST", "/ratelimit/rules", draft.clone()).await;
    let rule = format!("/ratelimit/rules/{}", rule["id"].as_str().unwrap());
    call(&rules, "PUT", &rule, draft).await;
    let reset = json!({"client": "eve"});
    call(&rules, "POST", "/ratelimit/reset", reset.clone()).await;
    call(&rules, "POST", "/ratelimit/reset", reset).await;
    let reset = json!({"rule_id": rule.rsplit('/').next().unwrap()});
    call(&rules, "POST", "/ratelimit/reset", reset.clone()).await;
    call(&rules, "POST", "/ratelimit/reset", reset).await;
    call(&rules, "GET", "/ratelimit/audit", Value::Null).await;
    call(&rules, "GET", "/ratelimit/revision", Value::Null).await;
    let event = include_str!("../../events/refresh-schedule.json");
    region.refresh.invoke_text(event).await.unwrap();
    let key = format!("/clients/eve/keys/{}", key["key_id"].as_str().unwrap());
    call(&clients, "DELETE", &key, Value::Null).await;
    call(&rules, "DELETE", &rule, Value::Null).await;
    call(&clients, "DELETE", "/clients/eve", Value::Null).await;
    region.refresh.invoke_text(event).await.unwrap();

    // Every table is one that some function reads, save that which is about the schema itself.
    let tables =
        "SELECT tablename::text, has_table_privilege(schemaname || '.' || tablename, 'SELECT')
        FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename";
    for row in psql.query(tables, &[]).await.unwrap() {
        let (table, read): (String, bool) = (row.get(0), row.get(1));
        assert_eq!(read, table != "refinery_schema_history", "{table}");
    }
    for forbidden in [
        "DROP TABLE rules",
        "ALTER TABLE rules DISABLE TRIGGER ALL",
        "TRUNCATE rules",
        "CREATE TABLE mine ()",
        "CREATE INDEX ON rules (id)",
        "DELETE FROM audit",
        "UPDATE audit SET action = 'create'",
        "DELETE FROM head",
        "DELETE FROM revisions",
        "UPDATE api_keys SET hash = ''",
        "SELECT FROM refinery_schema_history",
        "SELECT FROM pg_authid",
        "CREATE ROLE other",
        "CREATE DATABASE other",
        "COPY rules TO PROGRAM 'cat'",
    ] {
        let refused = psql.batch_execute(forbidden).await.unwrap_err();
        let code = refused.code().map(|code| code.code());
        assert_eq!(code, Some("42501"), "{forbidden}: {refused}");
    }
    let deadlines = "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'),
        current_setting('statement_timeout')";
    let row = psql.query_one(deadlines, &[]).await.unwrap();
    let deadlines: [&str; 3] = [row.get(0), row.get(1), row.get(2)];
    assert_eq!(deadlines, ["1500ms", "5s", "20s"]);
}

#[tokio::test]
async fn what_a_role_was_given_beside_is_taken_and_rds_iam_is_given_where_it_is() {
    let server = Postgres::start().unwrap();
    let admin = psql(server.url().parse().unwrap()).await;
    admin
        .batch_execute("CREATE ROLE rds_iam; CREATE ROLE functions NOLOGIN")
        .await
        .unwrap();
    let migrate = migrate(&server.url()).await;
    let properties = json!({"DatabaseRole": "functions"});
    assert_eq!(
        ask(&migrate, "Create", properties.clone()).await["Status"],
        "SUCCESS"
    );
    admin
        .batch_execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO functions; GRANT CREATE ON SCHEMA public TO functions")
        .await
        .unwrap();
    // Two at once.
    let both = join_all([(); 2].map(|()| ask(&migrate, "Update", properties.clone()))).await;
    for told in both {
        assert_eq!(told["Status"], "SUCCESS", "{told}");
    }
    let state = "SELECT rolcanlogin, pg_has_role('functions', 'rds_iam', 'member'),
        has_table_privilege('functions', 'audit', 'DELETE'), has_table_privilege('functions', 'audit', 'INSERT'),
        has_schema_privilege('functions', 'public', 'CREATE')
        FROM pg_roles WHERE rolname = 'functions'";
    let row = admin.query_one(state, &[]).await.unwrap();
    let state: [bool; 5] = std::array::from_fn(|n| row.get(n));
    assert_eq!(state, [true, true, false, true, false]);
}

#[tokio::test]
async fn a_hostile_name_is_a_name() {
    let url = stores::database().await;
    let migrate = migrate(&url).await;
    let admin = psql(url.parse().unwrap()).await;
    let number = stores::unique("");
    for name in [
        format!("x\"; DROP TABLE rules; --{number}"),
        format!("x'); DROP TABLE rules; --{number}"),
        format!("$$; DROP TABLE rules; $${number}"),
        format!("%I %s \\{number}"),
        format!("Ünïcode, spaces{number}"),
    ] {
        let told = ask(&migrate, "Create", json!({"DatabaseRole": name})).await;
        assert_eq!(told["Status"], "SUCCESS", "{name}: {told}");
        let known = "SELECT has_table_privilege($1::name, 'rules', 'DELETE')";
        let row = admin.query_one(known, &[&name]).await.unwrap();
        assert!(row.get::<_, bool>(0), "{name}");
    }
    admin.batch_execute("SELECT FROM rules").await.unwrap();
    let owner: String = admin
        .query_one("SELECT current_user::text", &[])
        .await
        .unwrap()
        .get(0);
    let mighty = stores::unique("mighty");
    let member = stores::unique("member");
    let holder = stores::unique("holder");
    admin
        .batch_execute(&format!(
            "CREATE ROLE {mighty} CREATEDB; CREATE ROLE {member} IN ROLE pg_read_all_data; CREATE ROLE {holder};
            CREATE SCHEMA {holder} AUTHORIZATION {holder}"
        ))
        .await
        .unwrap();
    for name in [
        "x".repeat(64),
        "a\u{0}b".to_owned(),
        "a\nb".to_owned(),
        "pg_read_all_data".to_owned(),
        "public".to_owned(),
        owner,
        mighty,
        member,
        holder,
    ] {
        let told = ask(&migrate, "Create", json!({"DatabaseRole": name})).await;
        assert_eq!(told["Status"], "FAILED", "{name:?}: {told}");
        let reason = told["Reason"].as_str().unwrap();
        assert!(reason.starts_with("DatabaseRole "), "{name:?}: {reason}");
    }
}

#[tokio::test]
async fn the_canary_is_registered_once_as_the_control_api_would() {
    let url = stores::empty_database().await;
    let migrate = migrate(&url).await;
    let database = Database::parse(&url).unwrap();
    let principal = "arn:aws:iam::123456789012:role/weir-canary";
    let register = async |principal: &str| {
        ask(&migrate, "Update", json!({"CanaryPrincipal": principal})).await
    };
    // Two at once, and once more.
    let both = join_all([register(principal), register(principal)]).await;
    for told in both.into_iter().chain([register(principal).await]) {
        assert_eq!(told["Status"], "SUCCESS", "{told}");
    }
    let rules = Container::start(Function::Rules, [("DATABASE_URL", url.as_str())]).await;
    let get = async |path: &str| {
        let event = tests::question::control("GET", path, &[], Value::Null);
        let answer = rules.invoke(&event).await.unwrap();
        serde_json::from_str::<Value>(answer["body"].as_str().unwrap()).unwrap()
    };
    let audit = get("/ratelimit/audit").await;
    let notes = audit["audit"].as_array().unwrap();
    assert_eq!(notes.len(), 2, "one client and one rule: {audit}");
    for note in notes {
        assert_eq!(note["actor"], "migrate");
        assert_eq!(note["action"], "create");
    }
    let known = database.client("weir-canary").await.unwrap().unwrap();
    assert_eq!(known.principal.as_deref(), Some(principal));
    let listed = get("/ratelimit/rules").await;
    let rule = &listed["rules"][0];
    for (field, value) in [
        ("resource", json!("canary")),
        ("client", Value::Null),
        ("per", json!("client")),
        ("limit", json!(1)),
        ("time_window", json!(3600)),
        ("on_failure", json!("deny")),
        ("override", json!(true)),
        ("status", json!("active")),
    ] {
        assert_eq!(rule[field], value, "{rule}");
    }

    // Whatever became of them since, they are as they should be again.
    let path = format!("/ratelimit/rules/{}", rule["id"].as_str().unwrap());
    let mut changed = rule.clone();
    changed["status"] = "terminated".into();
    let event = tests::question::control("PUT", &path, &[], changed);
    assert_eq!(rules.invoke(&event).await.unwrap()["statusCode"], 200);
    let other = "arn:aws:iam::123456789012:role/other-canary";
    assert_eq!(register(other).await["Status"], "SUCCESS");
    assert_eq!(get(&path).await["status"], "active");
    let known = database.client("weir-canary").await.unwrap().unwrap();
    assert_eq!(known.principal.as_deref(), Some(other));

    let told = register("arn:aws:s3:::bucket").await;
    assert_eq!(told["Status"], "FAILED");
    assert_eq!(
        told["Reason"],
        "CanaryPrincipal must be the ARN of an IAM user or role, or null"
    );
    let taken = limits_postgres::change_clients::ClientDraft::of(&limits_postgres::ClientRecord {
        principal: Some(principal.to_owned()),
        ..known
    });
    database.create_client("eve", "eve", taken).await.unwrap();
    let told = register(principal).await;
    let reason = told["Reason"].as_str().unwrap();
    assert!(reason.contains("that of the client \"eve\""), "{reason}");
}
