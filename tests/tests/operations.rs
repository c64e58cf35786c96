//! A request for every operation of the control API, in an order in which each has something to do.

use serde_json::{Value, json};

/// What is asked, as API Gateway routes it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) body: Value,
    /// How the document calls it.
    pub(crate) path: &'static str,
}

impl Asked {
    fn new(method: &'static str, path: &'static str, target: String, body: Value) -> Self {
        Self {
            method,
            target,
            body,
            path,
        }
    }

    /// The same about a rule and a key, where it is about one.
    pub(crate) fn about(&self, there: &There) -> Self {
        let target = self.target.replace("{rule}", &there.rule);
        let target = target.replace("{key}", &there.key);
        Self {
            target,
            ..self.clone()
        }
    }

    /// Which of the two functions has it.
    pub(crate) fn is_about_clients(&self) -> bool {
        self.path.starts_with("/clients")
    }
}

/// What those who came before have made.
#[derive(Debug, Default)]
pub(crate) struct There {
    pub(crate) rule: String,
    pub(crate) key: String,
}

impl There {
    /// Remembers what an answer tells.
    pub(crate) fn learn(&mut self, asked: &Asked, answer: &Value) {
        let (place, name) = match asked.path {
            "/ratelimit/rules" => (&mut self.rule, "id"),
            "/clients/{id}/keys" => (&mut self.key, "key_id"),
            _ => return,
        };
        if let Some(told) = answer[name].as_str() {
            *place = told.to_owned();
        }
    }
}

/// Whatever needs the database. `word` is one that nobody else uses; the rule and the key are those of the last answers that told
/// one.
pub(crate) fn all(word: &str) -> Vec<Asked> {
    let draft = |resource: &str| json!({"resource": resource, "limit": 5, "time_window": 60});
    let (eve, bob) = (format!("{word}-eve"), format!("{word}-bob"));
    let one = "/ratelimit/rules/{rule}".to_owned();
    let services = json!({"SourceService": eve, "DestinationService": bob, "Tps": 7});
    let between = format!("SourceService={eve}&DestinationService={bob}");
    let pair = json!({"user": eve, "api": "/pair", "tokens": 1, "time_unit": "minute"});
    let paired = format!("/rule?user={eve}&api=%2Fpair");
    let (get, post, put, delete) = ("GET", "POST", "PUT", "DELETE");
    let nothing = Value::Null;
    let keys = format!("/clients/{eve}/keys");
    [
        (
            post,
            "/clients",
            "/clients".to_owned(),
            json!({"client_id": eve}),
        ),
        (
            post,
            "/clients",
            "/clients".to_owned(),
            json!({"client_id": bob}),
        ),
        (get, "/clients", "/clients".to_owned(), nothing.clone()),
        (
            get,
            "/clients/{id}",
            format!("/clients/{eve}"),
            nothing.clone(),
        ),
        (
            put,
            "/clients/{id}",
            format!("/clients/{eve}"),
            json!({"tier": "paid"}),
        ),
        (post, "/clients/{id}/keys", keys.clone(), json!({})),
        (get, "/clients/{id}/keys", keys.clone(), nothing.clone()),
        (
            delete,
            "/clients/{id}/keys/{key_id}",
            format!("{keys}/{{key}}"),
            nothing.clone(),
        ),
        (
            post,
            "/ratelimit/rules",
            "/ratelimit/rules".to_owned(),
            draft(&format!("/{word}")),
        ),
        (
            get,
            "/ratelimit/rules",
            "/ratelimit/rules?limit=5".to_owned(),
            nothing.clone(),
        ),
        (get, "/ratelimit/rules/{name}", one.clone(), nothing.clone()),
        (
            put,
            "/ratelimit/rules/{name}",
            one.clone(),
            draft(&format!("/{word}/put")),
        ),
        (
            post,
            "/ratelimit/rules:batch",
            "/ratelimit/rules:batch".to_owned(),
            json!({"upsert": [draft(&format!("/{word}/1")), draft(&format!("/{word}/2"))]}),
        ),
        (post, "/rule", "/rule".to_owned(), pair.clone()),
        (get, "/rule", paired.clone(), nothing.clone()),
        (put, "/rule", "/rule".to_owned(), pair),
        (delete, "/rule", paired, nothing.clone()),
        (
            put,
            "/setThrottleRule",
            "/setThrottleRule".to_owned(),
            services,
        ),
        (
            get,
            "/getThrottleRule",
            format!("/getThrottleRule?{between}"),
            nothing.clone(),
        ),
        (
            post,
            "/ratelimit/reset",
            "/ratelimit/reset".to_owned(),
            json!({"client": eve}),
        ),
        (
            post,
            "/ratelimit/refresh",
            "/ratelimit/refresh".to_owned(),
            nothing.clone(),
        ),
        (
            get,
            "/ratelimit/revision",
            "/ratelimit/revision".to_owned(),
            nothing.clone(),
        ),
        (
            get,
            "/ratelimit/audit",
            "/ratelimit/audit?limit=5".to_owned(),
            nothing.clone(),
        ),
        (delete, "/ratelimit/rules/{name}", one, nothing.clone()),
        (
            delete,
            "/clients/{id}",
            format!("/clients/{eve}?cascade=true"),
            nothing,
        ),
    ]
    .into_iter()
    .map(|(method, path, target, body)| Asked::new(method, path, target, body))
    .collect()
}
