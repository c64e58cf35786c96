//! `make run`: every handler in this process, and the stores too unless others are named.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use admin::{Announcer, State};
use authorizer::{Authorizer, Options};
use axum::Router;
use check::Check;
use limiter::{Config, Limiter};
use limits::settings::Settings;
use limits_postgres::Database;
use limits_redis::Store;
use refresh::Refresh;
use tokio::time::{Instant, interval_at};

use crate::control;
use crate::first_steps::FirstSteps;
use crate::gateway::{Api, Authorize, FunctionError, Gateway};
use crate::serving::{Interruption, listen, serve, url};
use crate::template::Template;
use crate::{backend, demo};

/// The schedule of `refresh`.
const SCHEDULE: Duration = Duration::from_secs(60);

/// What `make run` is told.
#[derive(Clone)]
pub struct Run {
    /// The port of the protected API; 0 is any.
    pub port: u16,
    /// The port of the control and check APIs; 0 is any.
    pub admin_port: u16,
    /// The Redis to count in; none is memory.
    pub redis: Option<String>,
    /// The Postgres to keep rules in; none is memory.
    pub database: Option<String>,
    /// The text of the template.
    pub template: String,
}

impl fmt::Debug for Run {
    /// Without the addresses of the stores, which may hold passwords.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Run")
            .field("port", &self.port)
            .field("admin_port", &self.admin_port)
            .finish_non_exhaustive()
    }
}

/// What the functions are made of.
struct Parts {
    store: Store,
    database: Database,
    config: Config,
    options: Options,
}

impl Run {
    /// Runs everything until Ctrl-C. `environment` is what the functions see beside what is given here.
    pub async fn run(self, environment: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        let parts = self.parts(environment)?;
        let template =
            Template::parse(&self.template).map_err(|error| format!("template: {error}"))?;
        let listener = listen(self.port, "--port", "PORT").await?;
        let admin_listener = listen(self.admin_port, "--admin-port", "ADMIN_PORT").await?;

        let Parts {
            store,
            database,
            config,
            options,
        } = parts;
        database
            .migrate()
            .await
            .map_err(|error| error.to_string())?;
        let [free_rule, _] = demo::seed(&database)
            .await
            .map_err(|error| error.to_string())?;
        let refresh = Refresh::new(database.clone(), store.clone());
        refresh
            .run(0)
            .await
            .map_err(|error| format!("the rules cannot be published: {error}"))?;

        let steps = FirstSteps {
            protected: url(&listener)?,
            control: url(&admin_listener)?,
            free_rule,
        };
        let authorizer = Authorizer::new(Limiter::new(config.clone(), store.clone()), options);
        let protected = protected(&template, authorizer)?;
        let check = Check::new(Limiter::new(config.clone(), store.clone()), true);
        let state = State {
            database,
            announcer: announcer(refresh.clone()),
            region: Some(Arc::new(State::region(config, store))),
        };
        let control = control(&template, state, check)?;
        let mut interruption = Interruption::new()?;
        println!("{steps}");
        serve(
            vec![(listener, protected), (admin_listener, control)],
            async {
                tokio::select! {
                    biased;
                    () = interruption.come() => Ok(()),
                    never = scheduled(refresh) => never,
                }
            },
        )
        .await
    }

    fn parts(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<Parts, String> {
        let lookup = |name: &str| match name {
            "REDIS_URL" => Some(self.redis.clone().unwrap_or_else(|| MEMORY.to_owned())),
            "DATABASE_URL" => Some(self.database.clone().unwrap_or_else(|| MEMORY.to_owned())),
            other => environment(other),
        };
        let mut settings = Settings::new(&lookup);
        let store = limits_redis::Store::from_settings(&mut settings);
        let database = Database::from_settings(&mut settings);
        let config = Config::read(&mut settings);
        let options = Options::read(&mut settings);
        // The flags are what the reader knows.
        settings.finish().map_err(|faults| {
            faults
                .replace("REDIS_URL", "--redis")
                .replace("DATABASE_URL", "--database")
        })?;
        match (store, database, config, options) {
            (Some(store), Some(database), Some(config), Some(options)) => Ok(Parts {
                store,
                database,
                config,
                options,
            }),
            _ => Err("the environment cannot be read".to_owned()),
        }
    }
}

const MEMORY: &str = "memory://";

/// The protected API, whose authorizer answers in this process.
fn protected(template: &Template, authorizer: Authorizer) -> Result<Router, String> {
    let api = Api::read(template, "ProtectedApi").map_err(|error| format!("template: {error}"))?;
    let authorizer = Arc::new(authorizer);
    let authorize: Authorize = Arc::new(move |event| {
        let authorizer = Arc::clone(&authorizer);
        Box::pin(async move {
            let failure = |message: String| FunctionError {
                error_type: message.clone(),
                message,
            };
            // It is read as text, as it comes from Lambda.
            let event = serde_json::from_str(&event.to_string())
                .map_err(|error| failure(error.to_string()))?;
            let answer = authorizer
                .answer(event)
                .await
                .map_err(|error| failure(error.to_string()))?;
            serde_json::to_value(answer).map_err(|error| failure(error.to_string()))
        })
    });
    let backends = HashMap::from([("BackendFunction".to_owned(), backend::echo())]);
    Ok(Gateway::new(api, Some(authorize), backends)?.into_router())
}

/// The control API, and the check API that answers whoever asks.
fn control(template: &Template, state: State, check: Check) -> Result<Router, String> {
    let functions = control::Functions {
        rules: admin::rules(state.clone()),
        clients: admin::clients(state),
        check: check::router(Arc::new(check)),
    };
    control::app(template, functions)
}

/// Tells `refresh` in this process of a change, and waits until it is published.
fn announcer(refresh: Refresh) -> Announcer {
    Announcer::InProcess(Arc::new(move |revision| {
        let refresh = refresh.clone();
        Box::pin(async move {
            let published = refresh.run(revision).await;
            published.map(drop).map_err(|error| error.to_string())
        })
    }))
}

/// Wakes `refresh` each minute, for ever.
async fn scheduled<Never>(refresh: Refresh) -> Never {
    let mut minutes = interval_at(Instant::now() + SCHEDULE, SCHEDULE);
    loop {
        minutes.tick().await;
        if let Err(error) = refresh.run(0).await {
            tracing::warn!(%error, "the scheduled refresh failed");
        }
    }
}
