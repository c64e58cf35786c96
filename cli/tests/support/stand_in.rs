//! A server that answers as a story wants it, and remembers what it was asked.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Response};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path and query as they came.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A server on a free port of the loopback, until it is dropped.
pub(crate) struct StandIn {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _runtime: Runtime,
}

impl StandIn {
    /// A server whose answers are made by `answer`, in a thread of its own.
    pub(crate) fn start(answer: impl Fn(&Asked) -> Response<Body> + Send + Sync + 'static) -> Self {
        let runtime = Runtime::new().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (kept, answer) = (Arc::clone(&asked), Arc::new(answer));
        let app = Router::new().fallback(move |request: Request| {
            let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
            async move {
                let (parts, body) = request.into_parts();
                let asked = Asked {
                    method: parts.method.to_string(),
                    target: parts.uri.path_and_query().unwrap().to_string(),
                    headers: parts.headers,
                    body: to_bytes(body, usize::MAX).await.unwrap(),
                };
                kept.lock().unwrap().push(asked.clone());
                tokio::task::spawn_blocking(move || answer(&asked))
                    .await
                    .unwrap()
            }
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, app).await });
        Self {
            url,
            asked,
            _runtime: runtime,
        }
    }

    /// One that answers always the same.
    pub(crate) fn saying(status: u16, kind: &'static str, body: &'static str) -> Self {
        Self::start(move |_| response(status, kind, body))
    }

    /// What it was asked, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) fn response(status: u16, kind: &str, body: impl Into<Body>) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(body.into())
        .unwrap()
}

/// Asks the API at `url` the same, and gives its answer.
pub(crate) fn forward(url: &str, asked: &Asked) -> Response<Body> {
    let mut child = Command::new("curl")
        .args(["--silent", "--request", &asked.method])
        .args(["--write-out", "%{http_code} %{content_type}"])
        .args([
            "--header",
            "content-type: application/json",
            "--data-binary",
            "@-",
        ])
        .arg(format!("{url}{}", asked.target))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&asked.body).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let end = text.rfind('}').unwrap() + 1;
    let (status, kind) = text[end..].split_once(' ').unwrap();
    response(status.parse().unwrap(), kind, text[..end].to_owned())
}
