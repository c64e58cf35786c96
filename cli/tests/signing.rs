//! Requests to AWS are signed, as another implementation of Signature Version 4 signs them.

use serde_json::{Value, json};

use crate::support::{Ran, StandIn, printed, weir};

const KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "session/token==";

/// What botocore would have signed for a request like this, at its moment.
const BOTOCORE: &str = r"
import datetime, json, sys
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import urlsplit
from botocore.credentials import Credentials

asked = json.load(sys.stdin)
credentials = Credentials(asked['key'], asked['secret'], asked['token'])
auth = SigV4Auth(credentials, asked['service'], asked['region'])
request = AWSRequest(asked['method'], asked['url'], headers=asked['headers'], data=asked['body'].encode())
request.context['timestamp'] = asked['headers']['x-amz-date']
text = auth.string_to_sign(request, auth.canonical_request(request))
print(auth.signature(text, request))
";

fn botocore(asked: &Value) -> String {
    printed(BOTOCORE, asked.to_string().as_bytes())
        .trim()
        .to_owned()
}

fn signed(url: &str, arguments: &[&str]) -> Ran {
    weir(url, arguments)
        .env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_SESSION_TOKEN", TOKEN)
        .run()
}

#[test]
fn botocore_signs_the_same_request_the_same_way() {
    let api = StandIn::saying(403, "application/json", "{}");
    let url = format!("{}/prod", api.url);
    let always = ["--sigv4", "always", "--region", "eu-west-1"];
    for question in [
        &["rules", "export"][..],
        &["check", "a/b ü:@*'()%2F", "GET /orders/1?x=y&z"],
        &[
            "check",
            "--look",
            "eve",
            "GET /ü ~+*&=/%2F",
            "--tokens",
            "2",
            "--ip",
            "::1",
        ],
    ] {
        let told = signed(&url, &[&always, question].concat()).error();
        assert!(
            !told.contains(SECRET) && !told.contains(TOKEN) && !told.contains("Signature"),
            "{told}"
        );
    }
    let asked = api.asked();
    assert_eq!(asked.len(), 3);
    for asked in asked {
        let header = |name: &str| {
            asked
                .headers
                .get(name)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        let authorization = header("authorization");
        let part = |name: &str| {
            let from = authorization.find(name).unwrap() + name.len();
            authorization[from..].split(',').next().unwrap().to_owned()
        };
        let date = header("x-amz-date");
        assert_eq!(
            part("Credential="),
            format!("{KEY}/{}/eu-west-1/execute-api/aws4_request", &date[..8])
        );
        let names = part("SignedHeaders=");
        assert!(
            names.contains("host") && names.contains("x-amz-security-token"),
            "{names}"
        );
        let headers: serde_json::Map<String, Value> = names
            .split(';')
            .map(|name| (name.to_owned(), json!(header(name))))
            .collect();
        let wanted = botocore(&json!({
            "key": KEY, "secret": SECRET, "token": TOKEN, "service": "execute-api", "region": "eu-west-1",
            "method": asked.method, "url": format!("{}{}", api.url, asked.target), "headers": headers,
            "body": str::from_utf8(&asked.body).unwrap(),
        }));
        assert_eq!(part("Signature="), wanted, "{asked:?}");
    }
}

#[test]
fn nothing_is_signed_for_hosts_that_are_not_of_aws() {
    let api = StandIn::saying(403, "application/json", "{}");
    for when in [&[][..], &["--sigv4", "auto"], &["--sigv4", "never"]] {
        signed(&api.url, &[when, &["rules", "export"]].concat()).error();
    }
    let asked = api.asked();
    assert_eq!(asked.len(), 3);
    for asked in asked {
        let names = ["authorization", "x-amz-date", "x-amz-security-token"];
        assert!(
            names.iter().all(|name| !asked.headers.contains_key(*name)),
            "{asked:?}"
        );
    }
}

#[test]
fn a_signature_needs_a_region_and_credentials() {
    let api = StandIn::saying(403, "application/json", "{}");
    let always = ["--sigv4", "always", "rules", "export"];
    assert!(
        signed(&api.url, &always)
            .error()
            .contains("--region or AWS_REGION")
    );
    let told = weir(&api.url, &always)
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .run()
        .error();
    assert!(
        told.starts_with("the request cannot be signed: no AWS credentials"),
        "{told}"
    );
    assert!(api.asked().is_empty());
}

#[test]
fn nothing_is_signed_where_others_could_read_it() {
    let always = [
        "--sigv4",
        "always",
        "--region",
        "eu-west-1",
        "rules",
        "export",
    ];
    for (url, arguments) in [
        ("http://limits.example.com", &always[..]),
        ("http://10.0.0.1", &always),
        ("http://[2001:db8::1]", &always),
        (
            "http://abc.execute-api.eu-west-1.amazonaws.com/prod",
            &["rules", "export"],
        ),
    ] {
        let told = signed(url, arguments).error();
        assert!(
            told.contains("not signed over http://") && told.contains("https://"),
            "{told}"
        );
    }
    // Here nobody listens, and the request does not go out by a proxy either.
    let (api, proxy) = (
        StandIn::saying(403, "application/json", "{}"),
        StandIn::saying(403, "application/json", "{}"),
    );
    for url in [api.url.clone(), api.url.replace("127.0.0.1", "localhost")] {
        weir(&url, &always)
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("http_proxy", &proxy.url)
            .run()
            .error();
    }
    assert_eq!((api.asked().len(), proxy.asked().len()), (2, 0));
}
