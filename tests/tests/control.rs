//! The control API in this process, over either store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use admin::{Announcer, State};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use lambda_runtime::tower::ServiceExt;
use limits_postgres::Database;
use serde_json::Value;
use tests::stores;

/// The control API, and what it has announced.
pub(crate) struct Control {
    /// Which store, for messages of tests that run over both.
    pub(crate) store: &'static str,
    pub(crate) database: Database,
    rules: Router,
    clients: Router,
    pub(crate) announced: Arc<Mutex<Vec<u64>>>,
    /// Whether announcing fails.
    pub(crate) deaf: Arc<AtomicBool>,
}

/// What it answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Null where there is none.
    pub(crate) body: Value,
}

impl Control {
    pub(crate) fn in_memory() -> Self {
        Self::over("memory", Database::memory())
    }

    pub(crate) async fn in_postgres() -> Self {
        Self::at(&stores::database().await)
    }

    /// Over the database of a URL.
    pub(crate) fn at(url: &str) -> Self {
        Self::over("postgres", Database::parse(url).unwrap())
    }

    /// Both, for stories that are the same over either.
    pub(crate) async fn both() -> [Self; 2] {
        [Self::in_memory(), Self::in_postgres().await]
    }

    fn over(store: &'static str, database: Database) -> Self {
        let announced = Arc::<Mutex<Vec<u64>>>::default();
        let deaf = Arc::<AtomicBool>::default();
        let (heard, fails) = (Arc::clone(&announced), Arc::clone(&deaf));
        let announcer = Announcer::InProcess(Arc::new(move |revision| {
            let (heard, fails) = (Arc::clone(&heard), fails.load(Ordering::SeqCst));
            Box::pin(async move {
                if fails {
                    return Err("nobody listens".to_owned());
                }
                heard.lock().unwrap().push(revision);
                Ok(())
            })
        }));
        let state = State {
            database: database.clone(),
            announcer,
            region: None,
        };
        let clients = admin::clients(state.clone());
        let rules = admin::rules(state);
        Self {
            store,
            database,
            rules,
            clients,
            announced,
            deaf,
        }
    }

    pub(crate) async fn request(&self, request: Request<Body>) -> Answer {
        // As the gateway routes them.
        let path = request.uri().path();
        let router = if path == "/clients" || path.starts_with("/clients/") {
            &self.clients
        } else {
            &self.rules
        };
        let response = router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: match bytes.is_empty() {
                true => Value::Null,
                false => serde_json::from_slice(&bytes).unwrap(),
            },
        }
    }

    async fn send(
        &self,
        method: &str,
        target: &str,
        body: Option<&Value>,
        expected: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(target);
        if !expected.is_empty() {
            request = request.header("if-match", expected);
        }
        let body = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        self.request(request.body(body).unwrap()).await
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.send("GET", target, None, "").await
    }

    pub(crate) async fn post(&self, target: &str, body: Value) -> Answer {
        self.send("POST", target, Some(&body), "").await
    }

    pub(crate) async fn put(&self, target: &str, body: Value) -> Answer {
        self.send("PUT", target, Some(&body), "").await
    }

    pub(crate) async fn put_if(&self, target: &str, body: Value, expected: &str) -> Answer {
        self.send("PUT", target, Some(&body), expected).await
    }

    pub(crate) async fn delete(&self, target: &str) -> Answer {
        self.send("DELETE", target, None, "").await
    }

    pub(crate) async fn delete_if(&self, target: &str, expected: &str) -> Answer {
        self.send("DELETE", target, None, expected).await
    }

    /// Makes a rule, which must work, and gives its id.
    pub(crate) async fn rule(&self, rule: Value) -> String {
        let made = self.post("/ratelimit/rules", rule).await;
        assert_eq!(made.status, 201, "{}: {}", self.store, made.body);
        made.body["id"].as_str().unwrap().to_owned()
    }

    /// All items of a list, page by page.
    pub(crate) async fn pages(&self, name: &str, target: &str, limit: usize) -> Vec<Value> {
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{target}limit={limit}{cursor}")).await;
            assert_eq!(page.status, 200, "{}: {}", self.store, page.body);
            let own = page.body[name].as_array().unwrap();
            assert!(own.len() <= limit);
            items.extend(own.iter().cloned());
            match page.body["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
            assert!(!own.is_empty(), "an empty page that is not the last");
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The fields that a problem names, in its order.
    pub(crate) fn fields(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array();
        let errors = errors.map_or(&[] as &[Value], Vec::as_slice);
        errors
            .iter()
            .map(|error| error["field"].as_str().unwrap())
            .collect()
    }

    /// A problem as it must be: of this status, and of the kind that RFC 9457 says.
    pub(crate) fn is_problem(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert!(self.body["title"].is_string() && self.body["detail"].is_string());
        self
    }

    pub(crate) fn revision(&self) -> u64 {
        self.header("weir-revision").parse().unwrap()
    }
}
