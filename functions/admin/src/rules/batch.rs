//! `POST /ratelimit/rules:batch`

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::openapi::{Answer, Operation, Shape, reference};
use http_events::{Body, Problem, both};
use limits::{Draft, Fault, Fields, faults_of_the_whole};
use limits_postgres::Expected;
use limits_postgres::change_rules::{Deletion, MOST_CHANGES, Put, Target};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::actor::Actor;
use crate::answer;
use crate::body::ignore_answered;
use crate::describe::{self, announced, writing};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) fn describe() -> Operation {
    let body = json!({"upsert": [describe::rules::example()], "delete": []});
    let told = Shape::object()
        .required("rules", Shape::list(reference("Rule")))
        .required("revision", describe::revision())
        .required("propagation", describe::propagation());
    let answer = Answer::json(
        StatusCode::OK,
        "The rules that were put, as they are now.",
        told,
    );
    writing("changeRules", "Put and delete many rules, all or none")
        .body(reference("Batch"), body)
        .answer(announced(answer))
        .problem(StatusCode::NOT_FOUND)
}

pub(crate) async fn handle(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    query: Query,
    body: Body,
) -> Result<Response, Failure> {
    let ((), (puts, deletions)) = both(query.finish(), body.read(read))?;
    let written = state.database.change_rules(&actor, puts, deletions).await?;
    let body = Map::from_iter([("rules".to_owned(), json!(written.value))]);
    Ok(answer::told(&state, StatusCode::OK, written.revision, body).await)
}

fn read(body: &Value) -> Result<(Vec<Put>, Vec<Deletion>), Problem> {
    let mut fields = Fields::of(body).map_err(Problem::faults)?;
    let upserts = read_list(&mut fields, "upsert");
    let deletions = read_list(&mut fields, "delete");
    let mut faults = fields.finish();
    // Before each is read: every one of very many may be at fault.
    if upserts.len() + deletions.len() > MOST_CHANGES {
        let detail =
            format!("must have at most {MOST_CHANGES} rules in `upsert` and `delete` together");
        faults.push(Fault::new("", detail));
        return Err(Problem::faults(faults));
    }
    let puts = read_each(upserts, &mut faults, |place, value, faults| {
        read_put(&format!("upsert[{place}]."), value, faults)
    });
    let deletions = read_each(deletions, &mut faults, |place, value, faults| {
        read_deletion(&format!("delete[{place}]"), value, faults)
    });
    if faults.is_empty() && puts.is_empty() && deletions.is_empty() {
        faults.push(Fault::new(
            "",
            "must have something in `upsert` or in `delete`",
        ));
    }
    if faults.is_empty() {
        Ok((puts, deletions))
    } else {
        Err(Problem::faults(faults))
    }
}

fn read_list<'a>(fields: &mut Fields<'a>, name: &'static str) -> &'a [Value] {
    match fields.value(name) {
        None | Some(Value::Null) => &[],
        Some(Value::Array(list)) => list,
        Some(_) => {
            fields.fault(name, "must be an array");
            &[]
        }
    }
}

fn read_each<T>(
    list: &[Value],
    faults: &mut Vec<Fault>,
    read: impl Fn(usize, &Value, &mut Vec<Fault>) -> Option<T>,
) -> Vec<T> {
    list.iter()
        .enumerate()
        .filter_map(|(place, value)| read(place, value, faults))
        .collect()
}

/// A rule with an id replaces that one, or is made with it; one without replaces the one in its place, or is made.
fn read_put(field: &str, value: &Value, faults: &mut Vec<Fault>) -> Option<Put> {
    let mut own = Vec::new();
    let put = match Fields::of(value) {
        Err(_) => {
            faults.push(Fault::new(field.trim_end_matches('.'), "must be a rule"));
            return None;
        }
        Ok(mut fields) => {
            ignore_answered(&mut fields);
            let target = match fields.text("id").map(Uuid::try_parse) {
                None => Target::Place,
                Some(Ok(id)) => Target::Id(id),
                Some(Err(_)) => {
                    fields.fault("id", "must be a UUID, or left out");
                    Target::Place
                }
            };
            let draft = Draft::read(&mut fields);
            own.extend(fields.finish());
            draft.map(|draft| Put {
                field: field.to_owned(),
                target,
                draft,
                expected: Expected::Whatever,
            })
        }
    };
    let whole = faults_of_the_whole(value, &own);
    own.extend(whole);
    faults.extend(
        own.into_iter()
            .map(|fault| Fault::new(format!("{field}{}", fault.field), fault.detail)),
    );
    put
}

fn read_deletion(field: &str, value: &Value, faults: &mut Vec<Fault>) -> Option<Deletion> {
    match value.as_str().map(Uuid::try_parse) {
        Some(Ok(id)) => Some(Deletion {
            field: field.to_owned(),
            id,
            expected: Expected::Whatever,
        }),
        _ => {
            faults.push(Fault::new(field, "must be the id of a rule"));
            None
        }
    }
}
