//! Questions to the check API.

use crate::support::{Local, StandIn, weir};

#[test]
fn a_call_is_allowed_until_it_is_blocked_and_a_look_counts_nothing() {
    let local = Local::start();
    let ask = |arguments: &[&str]| {
        let all = [&["check", "demo-free", "GET /orders/1"], arguments].concat();
        local.weir(&all)
    };
    for _ in 0..2 {
        let look = ask(&["--look", "--tokens", "10", "--ip", "2001:db8::1"])
            .well(0)
            .out;
        assert!(
            look.contains("status       allowed\n") && look.contains("limit        10\n"),
            "{look}"
        );
    }
    ask(&["--tokens", "10"]).well(0);
    let blocked = ask(&[]).well(3).out;
    assert!(
        blocked.contains("status       blocked\nreason       limit\n"),
        "{blocked}"
    );
    assert!(
        blocked.contains("\nretry_after  ") && !blocked.contains("retry_after  -"),
        "{blocked}"
    );
    ask(&["--look"]).well(3);
}

#[test]
fn names_of_every_kind_reach_the_api_as_they_are() {
    let local = Local::start();
    for client in ["a/b", "ä ö?#%2F+&", "-x", "=", "..."] {
        let resource = "GET /a b?+&=ü/%2F";
        for look in [&[][..], &["--look"]] {
            let all = [&["check"], look, &["--", client, resource]].concat();
            let told = local.weir(&all).well(0).out;
            assert!(told.contains("reason       default"), "{client}: {told}");
        }
    }
    for client in ["..", "."] {
        let told = local.weir(&["check", client, "x"]).error();
        assert!(told.contains("cannot be named in a path"), "{told}");
    }
}

#[test]
fn what_is_wrong_with_a_question_is_an_error() {
    let local = Local::start();
    let told = local.weir(&["check", "eve", " ", "--tokens", "0"]).error();
    assert!(
        told.contains("400 Bad Request: 2 things are wrong"),
        "{told}"
    );
    assert!(
        told.contains("\n  tokens: must be") && told.contains("\n  resource: must be"),
        "{told}"
    );
    local.weir(&["check", "eve", "x", "--ip", "1.2.3"]).error();
}

#[test]
fn the_check_api_may_be_elsewhere() {
    let local = Local::start();
    let nobody = StandIn::saying(500, "text/plain", "");
    let question = ["check", "eve", "billing"];
    weir(&nobody.url, &question)
        .env("WEIR_CHECK_URL", &local.url)
        .run()
        .well(0);
    weir(
        &nobody.url,
        &[&question[..], &["--check-url", &local.url]].concat(),
    )
    .run()
    .well(0);
    assert!(nobody.asked().is_empty());
    weir(&nobody.url, &question).run().error();
    assert_eq!(nobody.asked()[0].target, "/ratelimit/status/eve");
}

#[test]
fn a_429_of_something_before_the_api_is_no_decision() {
    let gateway = StandIn::saying(
        429,
        "application/json",
        r#"{"message": "Too Many Requests"}"#,
    );
    let told = weir(&gateway.url, &["check", "eve", "billing"])
        .run()
        .error();
    assert!(
        told.contains("429 Too Many Requests: Too Many Requests"),
        "{told}"
    );
}
