//! What ElastiCache and RDS answer to whoever asks how a store is, in the shapes of their Query APIs; and what they may do instead.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Form, Router};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What becomes of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Manner {
    /// It is answered.
    #[default]
    Answers,
    /// It is never answered.
    Silent,
    /// It is answered when nobody waits any more.
    Slow,
    /// 403.
    Refuses,
    /// What is answered is no answer.
    Garbage,
    /// The answer is one to another question, and is about nothing.
    Empty,
}

/// What is said, and how.
#[derive(Debug, Clone)]
pub struct Said {
    /// How.
    pub manner: Manner,
    /// The state of the cache.
    pub cache: String,
    /// The state of its one part.
    pub part: String,
    /// How many nodes that part has.
    pub nodes: usize,
    /// The state of the database instance.
    pub database: String,
    /// When the cache failed over.
    pub cache_failovers: Vec<OffsetDateTime>,
    /// When the database did.
    pub database_failovers: Vec<OffsetDateTime>,
}

/// An endpoint of both on the loopback; dropping it ends it.
pub struct AwsHealth {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    said: Mutex<Said>,
    asked: Mutex<Vec<String>>,
}

impl AwsHealth {
    /// Where all is well: a cache `weir` of one node, serverless or not, and a database `weir`.
    pub async fn start() -> Self {
        let available = "available".to_owned();
        let shared = Arc::new(Shared {
            said: Mutex::new(Said {
                manner: Manner::Answers,
                cache: available.clone(),
                part: available.clone(),
                nodes: 1,
                database: available,
                cache_failovers: Vec::new(),
                database_failovers: Vec::new(),
            }),
            asked: Mutex::default(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", post(answer))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            shared,
            server,
        }
    }

    /// What a function needs in its environment to ask here about `weir`.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        let url = format!("http://{}", self.address);
        [
            ("AWS_ENDPOINT_URL_ELASTICACHE", url.clone()),
            ("AWS_ENDPOINT_URL_RDS", url),
            ("REDIS_CACHE_NAME", "weir".to_owned()),
            ("DATABASE_INSTANCE", "weir".to_owned()),
        ]
    }

    /// Says something else from now on.
    pub fn say(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.shared.said.lock().unwrap());
    }

    /// The actions that were asked for since this was last called, in order of their names.
    pub fn asked(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.shared.asked.lock().unwrap());
        asked.sort();
        asked
    }
}

impl Drop for AwsHealth {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    let action = form["Action"].clone();
    shared.asked.lock().unwrap().push(action.clone());
    let said = shared.said.lock().unwrap().clone();
    match said.manner {
        Manner::Answers => {}
        Manner::Silent => std::future::pending().await,
        Manner::Slow => tokio::time::sleep(Duration::from_secs(6)).await,
        Manner::Refuses => {
            let error = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
                         <Message>not for you</Message></Error><RequestId>1</RequestId></ErrorResponse>";
            return xml(StatusCode::FORBIDDEN, error.to_owned());
        }
        Manner::Garbage => return xml(StatusCode::OK, "<<not this".to_owned()),
        Manner::Empty => return xml(StatusCode::OK, wrap(&action, "")),
    }
    let of_rds = form["Version"].starts_with("2014");
    let result = match action.as_str() {
        "DescribeReplicationGroups" => group(&form["ReplicationGroupId"], &said),
        "DescribeServerlessCaches" => format!(
            "<ServerlessCaches><member><ServerlessCacheName>{}</ServerlessCacheName><Status>{}</Status></member></ServerlessCaches>",
            form["ServerlessCacheName"], said.cache
        ),
        "DescribeDBInstances" => format!(
            "<DBInstances><DBInstance><DBInstanceIdentifier>{}</DBInstanceIdentifier>\
             <DBInstanceStatus>{}</DBInstanceStatus></DBInstance></DBInstances>",
            form["DBInstanceIdentifier"], said.database
        ),
        "DescribeEvents" if of_rds => events(
            &form,
            &said.database_failovers,
            "Multi-AZ instance failover",
        ),
        "DescribeEvents" => events(
            &form,
            &said.cache_failovers,
            "Failover to replica node weir-002",
        ),
        other => panic!("{other}"),
    };
    xml(StatusCode::OK, wrap(&action, &result))
}

fn group(id: &str, said: &Said) -> String {
    let member = "<NodeGroupMember><CacheClusterId>weir-001</CacheClusterId><CacheNodeId>0001</CacheNodeId></NodeGroupMember>";
    format!(
        "<ReplicationGroups><ReplicationGroup><ReplicationGroupId>{id}</ReplicationGroupId><Status>{}</Status>\
         <NodeGroups><NodeGroup><NodeGroupId>0001</NodeGroupId><Status>{}</Status>\
         <NodeGroupMembers>{}</NodeGroupMembers></NodeGroup></NodeGroups></ReplicationGroup></ReplicationGroups>",
        said.cache,
        said.part,
        member.repeat(said.nodes)
    )
}

/// Each failover has an event when it begins and one when it is over, among others.
fn events(form: &HashMap<String, String>, failovers: &[OffsetDateTime], what: &str) -> String {
    assert_eq!(form["SourceIdentifier"], "weir");
    let event = |at: &OffsetDateTime, message: String| {
        let at = at.format(&Rfc3339).unwrap();
        format!(
            "<Event><SourceIdentifier>weir</SourceIdentifier><Message>{message}</Message><Date>{at}</Date></Event>"
        )
    };
    let each = failovers.iter().map(|at| {
        [
            event(at, format!("{what} started.")),
            event(at, format!("{what} completed")),
            event(at, "Finished DB Instance backup".to_owned()),
        ]
        .concat()
    });
    format!("<Events>{}</Events>", each.collect::<String>())
}

fn wrap(action: &str, result: &str) -> String {
    format!(
        "<{action}Response><{action}Result>{result}</{action}Result>\
         <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></{action}Response>"
    )
}

fn xml(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "text/xml")], body).into_response()
}
