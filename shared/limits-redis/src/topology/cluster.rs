//! Asking a cluster which server keeps which slots.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redis::Value;
use tokio::time::Instant;

use super::Inner;
use crate::address::Address;
use crate::keys::Place;
use crate::node::Node;

/// Asks every server that is known, and believes the first that answers: what it does not know yet, `MOVED` will tell.
pub(super) async fn find(inner: &Arc<Inner>, deadline: Instant) -> Option<()> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let known: Vec<Arc<Node>> = inner.known().nodes.values().cloned().collect();
    let unknown = |seed: &&Arc<Node>| !known.iter().any(|node| Arc::ptr_eq(node, seed));
    let seeds: Vec<Arc<Node>> = inner.seeds.iter().filter(unknown).cloned().collect();
    let nodes = known.into_iter().chain(seeds);
    let command = &command;
    let mut asked: FuturesUnordered<_> = nodes
        .map(|node| async move { (node.ask(command, false, deadline).await, node) })
        .collect();
    while let Some((answer, node)) = asked.next().await {
        match answer {
            Ok(slots) => {
                if let Some(ranges) = read(&slots) {
                    take_over(inner, &ranges, &node);
                    return Some(());
                }
                tracing::warn!(node = %node.address, "an answer to CLUSTER SLOTS of another shape");
            }
            Err(error) => {
                tracing::debug!(node = %node.address, %error, "does not tell who keeps what");
            }
        }
    }
    None
}

/// Slots from the first to the second, both included, and who keeps them.
type Range = (u16, u16, Address);

fn take_over(inner: &Inner, ranges: &[Range], teller: &Node) {
    let mut known = inner.known();
    let mut places = Vec::with_capacity(Place::COUNT);
    for place in Place::all() {
        let slot = place.slot();
        let range = ranges
            .iter()
            .find(|(from, to, _)| (*from..=*to).contains(&slot));
        places.push(range.map(|(_, _, at)| known.node(at.clone(), teller, inner)));
    }
    known.replace(places);
}

/// Reads the answer to `CLUSTER SLOTS`: `[from, to, [host, port, …], replicas…]` each. A server whose address is not known is left
/// out; an empty or missing host is the teller's. None where it is no such answer, or names nobody.
fn read(slots: &Value) -> Option<Vec<Range>> {
    let Value::Array(rows) = slots else {
        return None;
    };
    let range = |row: &Value| {
        let Value::Array(row) = row else { return None };
        let [Value::Int(from), Value::Int(to), Value::Array(primary), ..] = row.as_slice() else {
            return None;
        };
        let [host, Value::Int(port), ..] = primary.as_slice() else {
            return None;
        };
        let host = match host {
            Value::BulkString(host) => std::str::from_utf8(host).ok()?,
            Value::Nil => "",
            _ => return None,
        };
        let at = Address {
            host: host.to_owned(),
            port: u16::try_from(*port).ok().filter(|port| *port != 0)?,
        };
        let range = (u16::try_from(*from).ok()?, u16::try_from(*to).ok()?, at);
        (host != "?").then_some(range)
    };
    let ranges: Vec<Range> = rows.iter().filter_map(range).collect();
    (!ranges.is_empty()).then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn row(from: i64, to: i64, host: Value, port: i64) -> Value {
        let primary = Value::Array(vec![
            host,
            Value::Int(port),
            bulk("id"),
            Value::Array(vec![]),
        ]);
        Value::Array(vec![Value::Int(from), Value::Int(to), primary])
    }

    #[test]
    fn whoever_has_an_address_is_read_and_no_other() {
        let slots = Value::Array(vec![
            row(0, 100, bulk("10.0.0.1"), 6379),
            row(101, 200, bulk(""), 6380),
            row(201, 300, Value::Nil, 6381),
            row(301, 400, bulk("?"), 6382),
            row(401, 500, bulk("10.0.0.2"), 0),
            Value::Array(vec![Value::Int(501)]),
            Value::Nil,
        ]);
        let told: Vec<String> = read(&slots)
            .unwrap()
            .iter()
            .map(|(from, to, at)| format!("{from} {to} {at}"))
            .collect();
        assert_eq!(
            told,
            ["0 100 10.0.0.1:6379", "101 200 :6380", "201 300 :6381"]
        );
        for no_answer in [Value::Nil, Value::Array(vec![]), bulk("0-16383")] {
            assert_eq!(read(&no_answer), None);
        }
    }
}
