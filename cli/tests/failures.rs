//! What goes wrong on the way is told, and ends with 1.

use std::net::TcpListener;

use crate::support::{StandIn, weir};

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
        let api = StandIn::start(move |asked| {
            let body = if asked.target.ends_with("/revision") {
                r#"{"revision": 1}"#
            } else {
                list
            };
            crate::support::response(200, "application/json", body)
        });
        let told = weir(&api.url, &EXPORT).run().error();
        assert!(told.contains(wanted), "{told}");
    }
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
