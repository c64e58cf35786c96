//! While the database is out, whatever needs it says so in time, and nothing has to be done about it afterwards.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::join_all;
use local::servers::{End, Postgres};

use crate::control::{Answer, Control};
use crate::operations::{self, Asked, There};

/// What a caller waits at most, and something for a busy machine.
const PATIENCE: Duration = Duration::from_secs(8);

const ANY: &str = "01979c4e-0000-7000-8000-000000000000";

async fn ask(control: &Control, asked: &Asked) -> Answer {
    match asked.method {
        "GET" => control.get(&asked.target).await,
        "POST" => control.post(&asked.target, asked.body.clone()).await,
        "PUT" => control.put(&asked.target, asked.body.clone()).await,
        "DELETE" => control.delete(&asked.target).await,
        other => panic!("{other}"),
    }
}

async fn all_say_so(control: &Control, asked: &[Asked]) {
    let start = Instant::now();
    let answers = join_all(asked.iter().map(|asked| ask(control, asked))).await;
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    for (asked, answer) in asked.iter().zip(answers) {
        assert_eq!(answer.status, 503, "{asked:?}: {}", answer.body);
        assert_eq!(answer.is_problem(503).header("retry-after"), "1");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(
            detail.contains("nothing was changed"),
            "{asked:?}: {detail}"
        );
    }
}

#[tokio::test]
async fn every_operation_that_needs_the_database_says_that_it_is_out_and_all_work_again_by_themselves()
 {
    let mut server = Postgres::start().unwrap();
    let control = Control::at(&server.url());
    control.database.migrate().await.unwrap();
    let any = There {
        rule: ANY.to_owned(),
        key: ANY.to_owned(),
    };
    let asked: Vec<Asked> = operations::all("out")
        .iter()
        .map(|asked| asked.about(&any))
        .collect();

    let document = control.get("/openapi.json").await.body;
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            methods.map(|method| (path.clone(), method.to_uppercase()))
        })
        // One tells what is out, one stands still, one asks the region.
        .filter(|(path, _)| {
            !["/health", "/openapi.json", "/ratelimit/explain"].contains(&path.as_str())
        })
        .collect();
    let met = asked
        .iter()
        .map(|asked| (asked.path.to_owned(), asked.method.to_owned()));
    assert_eq!(met.collect::<BTreeSet<_>>(), described);

    for round in 0..2 {
        server.stop(End::Quit);
        all_say_so(&control, &asked).await;
        server.restart().unwrap();
        work(&control, &format!("crashed{round}")).await;
        server.pause();
        all_say_so(&control, &asked).await;
        server.resume();
        work(&control, &format!("frozen{round}")).await;
    }
}

/// Everything does what it is asked for, at the first time.
async fn work(control: &Control, word: &str) {
    let mut there = There::default();
    for asked in operations::all(word) {
        let asked = asked.about(&there);
        let answer = ask(control, &asked).await;
        assert!(
            (200..300).contains(&answer.status),
            "{asked:?}: {}",
            answer.body
        );
        there.learn(&asked, &answer.body);
    }
}
