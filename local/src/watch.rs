//! `make watch`: the real binaries under `cargo lambda watch`, on a Redis and a Postgres of their own.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use admin::migrate::canary;
use limits_postgres::Database;
use serde_json::json;
use tokio::time::{Instant, interval_at};
use uuid::Uuid;

use crate::emulator::{self, Emulator};
use crate::functions::Functions;
use crate::gateway::{Api, Authorize, Gateway};
use crate::servers::{Postgres, Redis};
use crate::serving::{Interruption, listen, port, serve, url};
use crate::template::Template;
use crate::topic::{Subscriber, Topic};
use crate::{backend, demo};

/// How long a function may take to be started and to answer. It may have to be compiled first.
const INVOCATION: Duration = Duration::from_secs(300);
/// The schedule of `refresh`.
const SCHEDULE: Duration = Duration::from_secs(60);
const SCHEDULED: &str = include_str!("../../events/refresh-schedule.json");
/// Nobody has it here: without IAM the canary asks as anyone may.
const CANARY: &str = "arn:aws:iam::000000000000:role/canary";

/// What `make watch` is told.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The port of the protected API; 0 is any.
    pub port: u16,
    /// The port of the functions; 0 is any.
    pub functions_port: u16,
    /// The text of the template.
    pub template: String,
    /// The folder of the workspace.
    pub root: PathBuf,
}

impl Watch {
    /// Runs everything until Ctrl-C.
    pub async fn run(self) -> Result<(), String> {
        let protected = listen(self.port, "--port", "PORT").await?;
        // Only to say it now and clearly if the port is taken, and to have one where any will do.
        let free = listen(self.functions_port, "--functions-port", "FUNCTIONS_PORT").await?;
        let functions_port = port(&free)?;
        drop(free);
        emulator::program(&self.root)?;
        emulator::build(&self.root)?;

        let redis = Redis::start().map_err(|error| error.to_string())?;
        let postgres = Postgres::start().map_err(|error| error.to_string())?;
        let free_rule = seed(&postgres.url()).await?;

        let functions = Functions::at(format!("http://127.0.0.1:{functions_port}"));
        let topic = Topic::start(vec![refresh(functions.clone())])
            .await
            .map_err(|error| format!("the topic: {error}"))?;
        let variables = [
            ("REDIS_URL", redis.url()),
            ("DATABASE_URL", postgres.url()),
            (
                "CHECK_URL",
                format!("http://127.0.0.1:{functions_port}/lambda-url/check"),
            ),
            // Whoever can reach this port is the developer.
            ("CHECK_ANONYMOUS", "allow".to_owned()),
        ]
        .into_iter()
        .chain(topic.variables())
        .map(|(name, value)| (name.to_owned(), value));
        let mut interruption = Interruption::new()?;
        let mut emulator = Emulator::start(&self.root, functions_port, variables).await?;
        tokio::select! {
            biased;
            () = interruption.come() => return Ok(()),
            result = wake(&functions) => result?,
            ended = emulator.followed() => return Err(ended),
        }

        let gateway = gateway(&self.template, functions.clone())?;
        let steps = WatchSteps {
            protected: url(&protected)?,
            functions_port,
            free_rule,
        };
        println!("{steps}");
        serve(vec![(protected, gateway.into_router())], async {
            tokio::select! {
                biased;
                () = interruption.come() => Ok(()),
                ended = emulator.followed() => Err(ended),
                never = scheduled(functions) => never,
            }
        })
        .await
    }
}

/// Makes the schema and the demo in a new database. Gives the rule of the free tier.
async fn seed(database: &str) -> Result<Uuid, String> {
    let database = Database::parse(database)?;
    database
        .migrate()
        .await
        .map_err(|error| error.to_string())?;
    canary::register(&database, CANARY)
        .await
        .map_err(|error| error.to_string())?;
    demo::seed(&database)
        .await
        .map(|[free, _]| free)
        .map_err(|error| error.to_string())
}

/// Starts every function once, and publishes what was seeded.
async fn wake(functions: &Functions) -> Result<(), String> {
    let events: [(&str, &str); 7] = [
        ("migrate", include_str!("../../events/migrate.json")),
        ("refresh", SCHEDULED),
        ("rules", include_str!("../../events/rules-http.json")),
        ("clients", include_str!("../../events/clients-http.json")),
        ("check", include_str!("../../events/check-url.json")),
        ("canary", include_str!("../../events/canary-schedule.json")),
        // From nobody, so that it takes nothing from those with whom one will try.
        ("authorizer", "{}"),
    ];
    for (name, event) in events {
        let event = serde_json::from_str(event).map_err(|error| format!("{name}: {error}"))?;
        match functions.invoke(name, &event, INVOCATION).await {
            Ok(_) => {}
            Err(error) if error.message == "Unauthorized" => {}
            Err(error) => {
                return Err(format!(
                    "{name} fails: {}: {}",
                    error.error_type, error.message
                ));
            }
        }
    }
    Ok(())
}

/// Hands announcements to the function `refresh`.
fn refresh(functions: Functions) -> Subscriber {
    Arc::new(move |event| {
        let functions = functions.clone();
        Box::pin(async move {
            functions
                .invoke("refresh", &event, INVOCATION)
                .await
                .map(drop)
                .map_err(|error| format!("{}: {}", error.error_type, error.message))
        })
    })
}

/// Wakes `refresh` each minute, for ever.
async fn scheduled<Never>(functions: Functions) -> Never {
    let event = serde_json::from_str(SCHEDULED).unwrap_or_else(|_| json!({}));
    let mut minutes = interval_at(Instant::now() + SCHEDULE, SCHEDULE);
    loop {
        minutes.tick().await;
        if let Err(error) = functions.invoke("refresh", &event, INVOCATION).await {
            tracing::warn!(message = %error.message, "the scheduled refresh failed");
        }
    }
}

/// The protected API, whose authorizer is the function under `cargo lambda watch`.
fn gateway(template: &str, functions: Functions) -> Result<Gateway, String> {
    let template = Template::parse(template).map_err(|error| error.to_string())?;
    let api = Api::read(&template, "ProtectedApi").map_err(|error| error.to_string())?;
    let authorize: Authorize = Arc::new(move |event| {
        let functions = functions.clone();
        Box::pin(async move { functions.invoke("authorizer", &event, INVOCATION).await })
    });
    let backends = HashMap::from([("BackendFunction".to_owned(), backend::echo())]);
    Gateway::new(api, Some(authorize), backends)
}

/// The lines that `make watch` prints.
struct WatchSteps {
    protected: String,
    functions_port: u16,
    free_rule: Uuid,
}

impl fmt::Display for WatchSteps {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            protected,
            functions_port: port,
            free_rule,
        } = self;
        let functions = format!("http://127.0.0.1:{port}/lambda-url");
        let json = "-H 'content-type: application/json'";
        writeln!(
            out,
            "\nThe functions, under cargo lambda watch: http://127.0.0.1:{port}\n\
             Protected, with the authorizer among them: {protected}\n\n\
             # From another shell in this folder:\n\
             export PATH=\"$PWD/.tools/venv/bin:$PATH\""
        )?;
        for (function, event) in [
            ("authorizer", "authorizer-rest"),
            ("authorizer", "authorizer-http"),
            ("check", "check-url"),
            ("rules", "rules-rest"),
            ("rules", "rules-http"),
            ("clients", "clients-rest"),
            ("clients", "clients-http"),
            ("rules", "rules-throttle"),
            ("check", "check-url-iam"),
            ("check", "check-throttle"),
            ("refresh", "refresh-sns"),
            ("refresh", "refresh-schedule"),
            ("refresh", "refresh-restored"),
            ("migrate", "migrate"),
            ("canary", "canary-schedule"),
        ] {
            writeln!(
                out,
                "cargo lambda invoke --invoke-address 127.0.0.1 --invoke-port {port} {function} --data-file events/{event}.json"
            )?;
        }
        write!(
            out,
            "\n# Through the stand-in for API Gateway, and straight to the HTTP functions; the second doubles a limit:\n\
             curl -iw '\\n' -H 'x-api-key: {key}' {protected}/orders/1\n\
             curl -iw '\\n' -X PUT {json} -d '{{\"resource\": \"*\", \"tier\": \"free\", \"limit\": {doubled}, \"time_window\": 60}}' {functions}/rules/ratelimit/rules/{free_rule}\n\
             curl -iw '\\n' -H 'x-api-key: {key}' {protected}/orders/1\n\
             curl -iw '\\n' '{functions}/rules/ratelimit/rules?applies_to=GET%20/orders/1'\n\
             curl -iw '\\n' {functions}/clients/clients\n\
             curl -iw '\\n' -X POST {json} -d '{{\"resource\": \"GET /orders/1\", \"tokens\": 1}}' {functions}/check/ratelimit/status/{client}\n\n\
             Ctrl-C ends it all.",
            key = demo::FREE.key,
            client = demo::PAID.client,
            doubled = demo::FREE.limit * 2,
        )
    }
}
