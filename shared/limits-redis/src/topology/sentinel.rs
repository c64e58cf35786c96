//! Asking sentinels which server is the primary now.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redis::Value;
use tokio::time::{Instant, timeout_at};

use super::Inner;
use crate::address::Address;

/// How long the others are waited for once one has answered.
const OTHERS: Duration = Duration::from_millis(20);

/// Asks all of them, and believes most: one that was cut off goes on naming the primary that it knew.
pub(super) async fn find(inner: &Arc<Inner>, name: &str, deadline: Instant) -> Option<()> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let command = &command;
    let asked = inner.seeds.iter().map(|sentinel| async move {
        let answer = sentinel.ask(command, false, deadline).await;
        let at = answer.as_ref().ok().and_then(read);
        if at.is_none() {
            tracing::debug!(sentinel = %sentinel.address, ?answer, "names no primary");
        }
        at
    });
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut votes: HashMap<Address, usize> = HashMap::new();
    let mut end = deadline;
    while let Ok(Some(answer)) = timeout_at(end, asked.next()).await {
        if let Some(at) = answer {
            let votes = votes.entry(at).or_default();
            *votes += 1;
            if *votes > inner.seeds.len() / 2 {
                break;
            }
            end = end.min(Instant::now() + OTHERS);
        }
    }
    let (at, _) = votes.into_iter().max_by_key(|(_, votes)| *votes)?;
    let mut known = inner.known();
    let teller = inner.seeds.first()?;
    let node = known.node(at, teller, inner);
    known.replace(vec![Some(node)]);
    Some(())
}

fn read(answer: &Value) -> Option<Address> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else {
        return None;
    };
    let host = std::str::from_utf8(host)
        .ok()
        .filter(|host| !host.is_empty())?;
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    Some(Address {
        host: host.to_owned(),
        port,
    })
}
