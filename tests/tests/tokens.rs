//! Passwords by IAM, as another implementation of the signature makes them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use aws::elasticache_token::ElastiCacheToken;
use aws::rds_token::RdsToken;
use aws::signer::Signer;
use limits::settings::Settings;
use serde_json::{Value, json};

const KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// What botocore makes of the same: for RDS by its own call, for ElastiCache by the request that AWS's documentation has signed.
const BOTOCORE: &str = r"
import datetime, functools, json, sys
import botocore.auth, botocore.session
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

session = botocore.session.Session()

@functools.cache
def rds(key, secret, token, region):
    session.set_credentials(key, secret, token)
    return session.create_client('rds', region_name=region)

def token(asked):
    now = datetime.datetime.fromtimestamp(asked['seconds'], datetime.timezone.utc).replace(tzinfo=None)
    botocore.auth.get_current_datetime = lambda *_, **__: now
    if asked['service'] == 'rds':
        client = rds(asked['key'], asked['secret'], asked['token'], asked['region'])
        return client.generate_db_auth_token(asked['host'], asked['port'], asked['user'])
    credentials = Credentials(asked['key'], asked['secret'], asked['token'])
    params = {'Action': 'connect', 'User': asked['user']}
    if asked['serverless']:
        params['ResourceType'] = 'ServerlessCache'
    request = AWSRequest('GET', 'http://' + asked['host'] + '/', params=params)
    SigV4QueryAuth(credentials, 'elasticache', asked['region'], 900).add_auth(request)
    return request.url[len('http://'):]

print(json.dumps([token(asked) for asked in json.load(sys.stdin)]))
";

fn botocore(asked: &[Value]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let python = root.join(".tools/venv/bin/python");
    assert!(python.is_file(), "`make setup` installs it");
    let mut child = Command::new(python)
        .args(["-c", BOTOCORE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = Value::from(asked).to_string();
    let mut input = child.stdin.take().unwrap();
    input.write_all(asked.as_bytes()).unwrap();
    drop(input);
    let told = child.wait_with_output().unwrap();
    assert!(told.status.success());
    serde_json::from_slice(&told.stdout).unwrap()
}

/// The same host and the same parameters: the signature is over all others, and their order is free.
fn same(minted: &[String], asked: &[Value]) {
    let parts = |token: &str| {
        let (host, query) = token.split_once("/?").unwrap();
        let mut parts: Vec<String> = query.split('&').map(str::to_owned).collect();
        parts.sort_unstable();
        (host.to_owned(), parts)
    };
    let wanted = botocore(asked);
    assert_eq!(minted.len(), wanted.len());
    for (minted, wanted) in minted.iter().zip(&wanted) {
        assert_eq!(parts(minted), parts(wanted));
    }
}

fn signer(region: &str, token: Option<&str>) -> Signer {
    let lookup = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some(KEY.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
        "AWS_SESSION_TOKEN" => token.map(str::to_owned),
        "AWS_REGION" => Some(region.to_owned()),
        _ => None,
    };
    let mut settings = Settings::new(&lookup);
    let signer = Signer::from_settings(&mut settings);
    settings.finish().unwrap();
    signer.unwrap()
}

/// Whose tokens are compared, and when.
struct Case {
    region: &'static str,
    session: Option<&'static str>,
    user: &'static str,
    seconds: u64,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (region, seconds) in [("eu-west-1", 1_796_040_000), ("us-gov-east-1", 951_782_399)] {
        for session in [None, Some("IQoJb3JpZ2luX2VjE/+x/y==")] {
            for user in [
                "weir",
                "weir-limits.1_2~3",
                "two words",
                "a+b=c&User=eve",
                "%2Fx/y?#@:;,$!'()*[]",
                "jürgen\u{1f980}",
            ] {
                cases.push(Case {
                    region,
                    session,
                    user,
                    seconds,
                });
            }
        }
    }
    cases
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn the_token_for_a_cache_is_the_one_that_botocore_signs() {
    let mut asked = Vec::new();
    let mut minted = Vec::new();
    for case in cases() {
        for (name, host, serverless) in [
            ("weir-1", "weir-1", false),
            ("serverless:weir", "weir", true),
        ] {
            let signer = signer(case.region, case.session);
            let token = ElastiCacheToken::new(name.parse().unwrap(), case.user, signer);
            let shown = format!("{token:?}");
            assert!(
                !shown.contains(SECRET) && !shown.contains("IQoJ"),
                "{shown}"
            );
            minted.push(token.mint(at(case.seconds)).unwrap());
            asked.push(json!({
                "service": "elasticache", "key": KEY, "secret": SECRET, "token": case.session, "region": case.region,
                "host": host, "serverless": serverless, "user": case.user, "seconds": case.seconds,
            }));
        }
    }
    assert!(minted[0].starts_with("weir-1/?Action=connect&User=weir&X-Amz-Algorithm="));
    same(&minted, &asked);
}

#[tokio::test]
async fn the_token_for_a_database_is_the_one_that_botocore_signs() {
    let mut asked = Vec::new();
    let mut minted = Vec::new();
    for case in cases() {
        // The region of the endpoint counts where its name has one.
        let inner = format!("weir.abc.{}.rds.amazonaws.com", case.region);
        for (host, port, region) in [
            (inner.as_str(), 5432, "ap-south-1"),
            ("db.example.com", 6432, case.region),
        ] {
            let signer = signer(region, case.session);
            let token = RdsToken::new(host, port, case.user, signer).unwrap();
            let shown = format!("{token:?}");
            assert!(
                !shown.contains(SECRET) && !shown.contains("IQoJ"),
                "{shown}"
            );
            minted.push(token.mint(at(case.seconds)).await.unwrap());
            asked.push(json!({
                "service": "rds", "key": KEY, "secret": SECRET, "token": case.session, "region": case.region,
                "host": host, "port": port, "user": case.user, "seconds": case.seconds,
            }));
        }
    }
    same(&minted, &asked);
}

#[test]
fn a_host_that_is_none_has_no_token() {
    for host in ["", "/tmp", "a b", "h@x", "h/?x", "h:1", "::1"] {
        let refused = RdsToken::new(host, 5432, "weir", signer("eu-west-1", None));
        assert!(refused.is_err(), "{host}");
    }
}
