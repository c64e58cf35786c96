//! What goes wrong on the way is told, and ends with 1.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::json;

use crate::support::{StandIn, response, weir};

const EXPORT: [&str; 2] = ["rules", "export"];

#[test]
fn a_host_where_nobody_is_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It takes connections and never answers.
    let told = weir(&url, &["--timeout", "1", "rules", "export"])
        .run()
        .error();
    assert_eq!(
        told,
        format!("{url}/ratelimit/revision did not answer within 1 s (--timeout)\n")
    );
    drop(listener);
    let told = weir(&url, &EXPORT).run().error();
    assert!(
        told.starts_with(&format!(
            "{url}/ratelimit/revision cannot be reached: Connection refused"
        )),
        "{told}"
    );
    let told = weir("https://weir.invalid", &EXPORT).run().error();
    assert!(
        told.starts_with("https://weir.invalid/ratelimit/revision cannot be reached: "),
        "{told}"
    );
}

#[test]
fn a_problem_is_told_whole() {
    let problem = r#"{"type": "about:blank", "title": "Forbidden", "status": 403, "detail": "not\u001b[2J you",
        "errors": [{"field": "who", "detail": "must be another"}, {"field": "", "detail": "no"}]}"#;
    let api = StandIn::saying(403, "application/problem+json", problem);
    assert_eq!(
        weir(&api.url, &EXPORT).run().error(),
        format!(
            "{}/ratelimit/revision answered 403 Forbidden: not\\u{{1b}}[2J you\n  who: must be another\n  the request: no\n",
            api.url
        )
    );
    // API Gateway's own no.
    let gateway = StandIn::saying(
        403,
        "application/json",
        r#"{"message": "Missing Authentication Token"}"#,
    );
    let told = weir(&gateway.url, &EXPORT).run().error();
    assert!(
        told.contains("403 Forbidden: Missing Authentication Token"),
        "{told}"
    );
}

#[test]
fn what_is_no_api_of_ours_is_told() {
    for (status, kind, body, wanted) in [
        (
            200,
            "text/html",
            "<h1>Welcome</h1>",
            "answered 200 OK and no JSON, so it is not the API or something stands before it: text/html, <h1>Welcome</h1>",
        ),
        (
            502,
            "text/plain",
            "",
            "answered 502 Bad Gateway and no JSON",
        ),
        (
            301,
            "text/plain",
            "",
            "answered 301 Moved Permanently and no JSON",
        ),
        (200, "application/json", "{}", "it tells no revision"),
    ] {
        let api = StandIn::saying(status, kind, body);
        let told = weir(&api.url, &EXPORT).run().error();
        assert!(told.contains(wanted), "{told}");
    }
    // A list that is none, of rules that are none.
    for (list, wanted) in [
        ("{}", "it tells no list of rules"),
        (r#"{"rules": [], "next": "same"}"#, "its list has no end"),
        (
            r#"{"rules": [{"id": "x"}], "next": null}"#,
            "rule x: id: must be a UUID",
        ),
        (
            r#"{"rules": [{"id": "01979c4e-0000-7000-8000-00000000002a", "revision": 1, "resource": "/", "limit": 1, "time_window": 1, "colour": 1}]}"#,
            "rule 01979c4e-0000-7000-8000-00000000002a: colour: is not a field",
        ),
    ] {
        let api = listing(move |_| list.to_owned());
        let told = weir(&api.url, &EXPORT).run().error();
        assert!(told.contains(wanted), "{told}");
    }
}

/// What an API answers whose list this makes, page by page.
fn listing(page: impl Fn(u64) -> String + Send + Sync + 'static) -> StandIn {
    let count = AtomicU64::new(0);
    StandIn::start(move |asked| {
        let body = if asked.target.ends_with("/revision") {
            r#"{"revision": 1}"#.to_owned()
        } else {
            page(count.fetch_add(1, Ordering::Relaxed))
        };
        response(200, "application/json", body)
    })
}

#[test]
fn a_list_without_an_end_is_not_read_for_ever() {
    // In a ring, and on and on.
    for pages in [3, u64::MAX] {
        let api =
            listing(move |number| format!(r#"{{"rules": [], "next": "{}"}}"#, number % pages));
        let told = weir(&api.url, &EXPORT).run().error();
        assert!(told.contains("its list has no end"), "{told}");
        let asked = api.asked().len();
        assert!(asked <= 1_001, "{asked}");
    }
}

#[test]
fn an_answer_without_an_end_is_not_read_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It ends after all, lest one who reads it whole takes all memory.
    let answering = thread::spawn(move || {
        let (mut asking, _) = listener.accept().unwrap();
        asking.read_exact(&mut [0; 16]).unwrap();
        asking
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            .unwrap();
        let some = [b' '; 1 << 20];
        (0..80).find_map(|_| asking.write_all(&some).err())
    });
    let told = weir(&url, &EXPORT).run().error();
    assert_eq!(
        told,
        format!(
            "{url}/ratelimit/revision answered more than 64 MiB, which is no answer of the API\n"
        )
    );
    assert!(answering.join().unwrap().is_some());
}

#[test]
fn of_very_many_faults_some_are_told_and_the_rest_counted() {
    let errors = vec![json!({ "field": "x", "detail": "y" }); 50_000];
    let problem = json!({ "detail": "no", "errors": errors }).to_string();
    let api = StandIn::start(move |_| response(400, "application/problem+json", problem.clone()));
    let told = weir(&api.url, &EXPORT).run().error();
    assert!(
        told.lines().count() == 102 && told.ends_with("\n  x: y\n  and 49900 more\n"),
        "{}",
        told.len()
    );
    // What is strange about a rule is told no longer either, and shown as it is.
    let colours = (0..50_000).map(|number| format!(r#""\u001b{number}": 1"#));
    let rule = format!("{{{}}}", colours.collect::<Vec<_>>().join(","));
    let api = listing(move |_| format!(r#"{{"rules": [{rule}], "next": null}}"#));
    let told = weir(&api.url, &EXPORT).run().error();
    assert!(
        told.len() < 5_000 && told.contains("\\u{1b}") && !told.contains('\u{1b}'),
        "{}",
        told.len()
    );
}

#[test]
fn the_stage_of_an_api_stands_before_every_path() {
    let api = StandIn::saying(500, "text/plain", "");
    for base in ["/prod", "/prod/"] {
        weir(&format!("{}{base}", api.url), &EXPORT).run().error();
    }
    assert!(
        api.asked()
            .iter()
            .all(|asked| asked.target == "/prod/ratelimit/revision")
    );
}

#[test]
fn a_url_that_cannot_be_asked_is_refused_and_no_secret_of_it_shown() {
    for url in ["127.0.0.1:8081", "ftp://x", "http://x?y=z", "not a url", ""] {
        assert!(
            weir(url, &EXPORT)
                .run()
                .error()
                .contains("the URL must be like http"),
            "{url}"
        );
    }
    let told = weir("http://eve:hunter2@127.0.0.1:1", &EXPORT)
        .run()
        .error();
    assert!(
        told.contains("must not hold a name or a password") && !told.contains("hunter2"),
        "{told}"
    );
    let help = weir("http://eve:hunter2@127.0.0.1:1", &["--help"])
        .run()
        .well(0);
    assert!(
        help.out.contains("WEIR_URL") && !help.out.contains("hunter2"),
        "{help:?}"
    );
}

#[test]
fn a_wrong_command_line_ends_with_1_and_help_with_0() {
    for wrong in [
        &["rules"][..],
        &[],
        &["rules", "plan"],
        &["rules", "export", "--timeout", "0"],
        &["bogus"],
    ] {
        weir("http://127.0.0.1:1", wrong).run().error();
    }
    let version = weir("http://127.0.0.1:1", &["--version"]).run().well(0).out;
    assert_eq!(version, format!("weir {}\n", env!("CARGO_PKG_VERSION")));
    for command in [
        &["rules", "plan"][..],
        &["rules", "apply"],
        &["rules", "export"],
        &["check"],
    ] {
        let help = weir("http://127.0.0.1:1", &[command, &["--help"]].concat())
            .run()
            .well(0)
            .out;
        assert!(help.contains("Usage: weir "), "{help}");
    }
}
