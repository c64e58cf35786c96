//! What CloudFormation makes of the template: the SAM translator's output, pinned.

use std::collections::{BTreeMap, BTreeSet};

use local::gateway::{Api, GatewayResponse, Source};
use local::template::Template;
use serde_json::{Map, Value, json};
use tests::template::{deployed, resources, translate};
use tests::{Container, Function};

fn body(api: &str) -> &'static Value {
    &resources()[api]["Properties"]["Body"]
}

fn gateway_responses() -> &'static Value {
    &body("ProtectedApi")["x-amazon-apigateway-gateway-responses"]
}

/// The headers of a gateway response with their mapping expressions.
fn headers(response: &Value) -> impl Iterator<Item = (&str, &str)> {
    response["responseParameters"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, expression)| {
            let name = key.strip_prefix("gatewayresponse.header.").unwrap();
            (name, expression.as_str().unwrap())
        })
}

fn expression<'a>(response: &'a Value, header: &str) -> &'a str {
    headers(response)
        .find(|(name, _)| *name == header)
        .unwrap_or_else(|| panic!("no header {header}"))
        .1
}

fn template_of(response: &Value) -> &str {
    response["responseTemplates"]["application/json"]
        .as_str()
        .unwrap()
}

/// The names after `$context.authorizer.` in a body.
fn names_in(body: &str) -> impl Iterator<Item = &str> {
    body.split("$context.authorizer.").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric());
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[test]
fn each_refusal_has_its_status() {
    for (name, status) in [
        ("ACCESS_DENIED", "429"),
        ("UNAUTHORIZED", "401"),
        ("AUTHORIZER_FAILURE", "503"),
        ("AUTHORIZER_CONFIGURATION_ERROR", "503"),
        ("THROTTLED", "429"),
        ("QUOTA_EXCEEDED", "429"),
    ] {
        assert_eq!(gateway_responses()[name]["statusCode"], status, "{name}");
    }
}

#[test]
fn a_denial_carries_every_header_of_the_contract_from_the_context() {
    let denied = &gateway_responses()["ACCESS_DENIED"];
    for (header, key) in [
        ("Retry-After", "retryAfter"),
        ("RateLimit", "rateLimit"),
        ("RateLimit-Policy", "rateLimitPolicy"),
        ("X-RateLimit-Limit", "limit"),
        ("X-RateLimit-Remaining", "remaining"),
        ("X-RateLimit-Reset", "reset"),
        ("X-RateLimit-RetryAfter", "retryAfter"),
    ] {
        assert_eq!(
            expression(denied, header),
            format!("context.authorizer.{key}")
        );
    }
}

#[test]
fn what_a_denial_maps_is_what_the_authorizer_emits() {
    let context = serde_json::to_value(authorizer::answer::Context::default()).unwrap();
    let emitted = context.as_object().unwrap();
    let denied = &gateway_responses()["ACCESS_DENIED"];
    let in_headers =
        headers(denied).filter_map(|(_, source)| source.strip_prefix("context.authorizer."));
    let mapped: BTreeSet<_> = in_headers.chain(names_in(template_of(denied))).collect();
    assert!(mapped.len() > 7, "{mapped:?}");
    for key in mapped {
        assert!(emitted.contains_key(key), "nobody emits {key}");
    }
}

#[test]
fn what_comes_before_or_without_a_context_tells_its_own_wait() {
    for name in [
        "AUTHORIZER_FAILURE",
        "AUTHORIZER_CONFIGURATION_ERROR",
        "THROTTLED",
        "QUOTA_EXCEEDED",
    ] {
        assert_eq!(
            expression(&gateway_responses()[name], "Retry-After"),
            "'1'",
            "{name}"
        );
    }
}

#[test]
fn only_a_denial_reads_the_context() {
    for (name, response) in gateway_responses().as_object().unwrap() {
        if name != "ACCESS_DENIED" {
            assert!(
                !response.to_string().contains("context.authorizer"),
                "{name}"
            );
        }
    }
}

#[test]
fn a_value_that_may_hold_a_quote_or_anything_goes_into_no_body() {
    for (name, response) in gateway_responses().as_object().unwrap() {
        for key in names_in(template_of(response)) {
            assert!(
                !["rateLimit", "rateLimitPolicy", "clientId", "tier"].contains(&key),
                "{name}: {key}"
            );
        }
        for (header, expression) in headers(response) {
            assert!(
                !["context.authorizer.clientId", "context.authorizer.tier"].contains(&expression),
                "{name}: {header}"
            );
        }
    }
}

#[test]
fn every_answer_is_a_problem_a_browser_may_read() {
    for (name, response) in gateway_responses().as_object().unwrap() {
        assert_eq!(
            expression(response, "Content-Type"),
            "'application/problem+json'",
            "{name}"
        );
        assert_eq!(
            expression(response, "Access-Control-Allow-Origin"),
            "'*'",
            "{name}"
        );
        let filled = template_of(response)
            .replace("$context.error.messageString", "\"x\"")
            .replace("$context.", "");
        let problem: Value = serde_json::from_str(&filled).unwrap();
        assert!(problem["title"].is_string(), "{name}");
        assert!(problem["request_id"].is_string(), "{name}");
        if let Some(status) = response["statusCode"].as_str() {
            assert_eq!(problem["status"].to_string(), status, "{name}");
        }
    }
}

#[test]
fn a_browser_may_read_every_header_that_tells_a_limit() {
    for (name, response) in gateway_responses().as_object().unwrap() {
        let told: BTreeSet<_> = headers(response)
            .map(|(header, _)| header)
            .filter(|header| header.contains("RateLimit") || *header == "Retry-After")
            .collect();
        if told.is_empty() {
            continue;
        }
        let exposed = expression(response, "Access-Control-Expose-Headers").trim_matches('\'');
        assert_eq!(exposed.split(',').collect::<BTreeSet<_>>(), told, "{name}");
    }
}

#[test]
fn every_429_has_one_shape() {
    let keys = |name: &str| {
        let filled = template_of(&gateway_responses()[name]).replace("$context.", "");
        let problem: Value = serde_json::from_str(&filled).unwrap();
        problem
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys("THROTTLED"), keys("ACCESS_DENIED"));
    assert_eq!(keys("QUOTA_EXCEEDED"), keys("ACCESS_DENIED"));
}

#[test]
fn every_call_is_asked_about_and_no_answer_is_kept() {
    let schemes = body("ProtectedApi")["components"]["securitySchemes"]
        .as_object()
        .unwrap();
    assert_eq!(schemes.len(), 1);
    let authorizer = &schemes["Weir"]["x-amazon-apigateway-authorizer"];
    assert_eq!(authorizer["type"], "request");
    assert_eq!(authorizer["authorizerResultTtlInSeconds"], 0);
    assert_eq!(authorizer.get("identitySource"), None);
}

#[test]
fn every_method_but_options_is_guarded() {
    let paths = body("ProtectedApi")["paths"].as_object().unwrap();
    assert_eq!(paths.keys().collect::<Vec<_>>(), ["/", "/{proxy+}"]);
    for (path, methods) in paths {
        let methods = methods.as_object().unwrap();
        assert_eq!(
            methods.keys().collect::<Vec<_>>(),
            ["options", "x-amazon-apigateway-any-method"],
            "{path}"
        );
        assert_eq!(methods["options"].get("security"), None, "{path}");
        assert_eq!(
            methods["options"]["x-amazon-apigateway-integration"]["type"],
            "mock"
        );
        assert_eq!(
            methods["x-amazon-apigateway-any-method"]["security"],
            json!([{"Weir": []}]),
            "{path}"
        );
    }
}

#[test]
fn the_control_api_is_apart_and_signed_with_iam() {
    let api = body("ControlApi");
    for (path, methods) in api["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert_eq!(
                operation["security"],
                json!([{"AWS_IAM": []}]),
                "{method} {path}"
            );
            let integration = &operation["x-amazon-apigateway-integration"];
            assert_eq!(
                integration.get("credentials"),
                None,
                "the caller would need leave to invoke the function"
            );
        }
    }
    let scheme = &api["components"]["securitySchemes"]["AWS_IAM"];
    assert_eq!(scheme["x-amazon-apigateway-authtype"], "awsSigv4");
    assert_eq!(
        resources()["CheckFunctionUrl"]["Properties"]["AuthType"],
        "AWS_IAM"
    );
}

#[test]
fn refresh_hears_of_a_change_and_wakes_each_minute() {
    let refresh = json!({"Fn::GetAtt": ["RefreshFunction", "Arn"]});
    let subscription = &resources()["RefreshFunctionAnnouncement"]["Properties"];
    assert_eq!(subscription["Endpoint"], refresh);
    assert_eq!(subscription["TopicArn"], json!({"Ref": "RulesTopic"}));
    let schedule = &resources()["RefreshFunctionEachMinute"]["Properties"];
    assert_eq!(schedule["ScheduleExpression"], "rate(1 minute)");
    assert_eq!(schedule["Targets"][0]["Arn"], refresh);
}

#[test]
fn lambda_tells_of_its_own_what_went_wrong_and_drops_no_line_of_a_function() {
    for (id, function) in of_kind("AWS::Lambda::Function") {
        let logging = &function["Properties"]["LoggingConfig"];
        let group = logging["LogGroup"]["Ref"].as_str().unwrap();
        assert!(resources().get(group).is_some(), "{id}: {group}");
        assert_eq!(logging["LogFormat"], "JSON", "{id}: or no level is heeded");
        assert_eq!(logging["SystemLogLevel"], "WARN", "{id}");
        assert_eq!(logging["ApplicationLogLevel"], "TRACE", "{id}");
    }
}

#[test]
fn each_function_is_told_of_its_stores_and_no_others() {
    let variables = |function: &str| {
        let variables = &resources()[function]["Properties"]["Environment"]["Variables"];
        variables
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .filter(|name| ["REDIS_URL", "DATABASE_URL", "RULES_TOPIC_ARN"].contains(name))
            .collect::<Vec<_>>()
    };
    assert_eq!(variables("AuthorizerFunction"), ["REDIS_URL"]);
    assert_eq!(variables("CheckFunction"), ["REDIS_URL"]);
    assert_eq!(variables("RefreshFunction"), ["DATABASE_URL", "REDIS_URL"]);
    assert_eq!(variables("MigrateFunction"), ["DATABASE_URL"]);
    assert_eq!(
        variables("ClientsFunction"),
        ["DATABASE_URL", "RULES_TOPIC_ARN"]
    );
    assert_eq!(
        variables("RulesFunction"),
        ["DATABASE_URL", "REDIS_URL", "RULES_TOPIC_ARN"]
    );
}

#[test]
fn the_stand_in_reads_what_deploys() {
    let template = Template::parse(include_str!("../../template.yaml")).unwrap();
    for id in ["ProtectedApi", "ControlApi"] {
        let api = Api::read(&template, id).unwrap();
        let deployed = body(id);
        let responses = deployed["x-amazon-apigateway-gateway-responses"]
            .as_object()
            .unwrap();
        assert_eq!(
            api.responses
                .iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>(),
            responses.keys().collect::<Vec<_>>()
        );
        for (name, response) in responses {
            assert_eq!(
                api.responses.get(name),
                Some(&as_read(response)),
                "{id} {name}"
            );
        }
        let resources: BTreeSet<_> = api.routes.iter().map(|route| &route.resource).collect();
        let paths: BTreeSet<_> = deployed["paths"].as_object().unwrap().keys().collect();
        assert_eq!(resources, paths, "{id}");
        let preflight = api.preflight.map(|preflight| preflight.headers);
        let mapped =
            deployed["paths"]["/{proxy+}"]["options"].get("x-amazon-apigateway-integration");
        let mapped = mapped.map(|integration| {
            integration["responses"]["default"]["responseParameters"]
                .as_object()
                .unwrap()
        });
        assert_eq!(preflight.is_some(), mapped.is_some(), "{id}");
        for (name, value) in preflight.into_iter().flatten() {
            let found = mapped.unwrap().iter().find(|(key, _)| {
                key.strip_prefix("method.response.header.")
                    .is_some_and(|header| header.eq_ignore_ascii_case(name.as_str()))
            });
            let quoted = format!("'{}'", value.to_str().unwrap());
            assert_eq!(found.unwrap().1, &quoted, "{id} {name}");
        }
    }
}

/// A gateway response of the translated template in the form in which the stand-in reads one.
fn as_read(response: &Value) -> GatewayResponse {
    GatewayResponse {
        status: response["statusCode"]
            .as_str()
            .map(|status| status.parse().unwrap()),
        headers: headers(response)
            .map(|(name, expression)| (name.to_owned(), Source::parse(expression).unwrap()))
            .collect(),
        body: Some(template_of(response).to_owned()),
    }
}

/// What can be chosen: each cache with each database, in a network of each kind.
fn choices() -> Vec<Value> {
    let networks = [
        json!({}),
        json!({"AvailabilityZones": "3", "StoreHealth": "false"}),
        json!({"Network": "existing", "VpcId": "vpc-11111111", "SubnetIds": "subnet-11111111,subnet-22222222"}),
        json!({
            "Network": "existing", "VpcId": "vpc-11111111", "SubnetIds": "subnet-11111111,subnet-22222222",
            "SecurityGroupId": "sg-11111111",
        }),
    ];
    let caches = [
        json!({}),
        json!({"CacheClusterMode": "enabled", "CacheShards": "3"}),
        json!({"Cache": "serverless"}),
        json!({"Cache": "existing", "RedisUrl": "redis://user:password@host"}),
        json!({
            "Cache": "existing", "RedisUrl": "rediss://user@host", "RedisAuth": "iam", "RedisCacheName": "mine",
            "RedisConnectArns": "arn:aws:elasticache:us-east-1:123456789012:replicationgroup:mine,arn:aws:elasticache:us-east-1:123456789012:user:user",
        }),
    ];
    let follows = json!({
        "FollowedTopicArn": "arn:aws:sns:eu-west-1:123456789012:rules", "FollowedRegion": "eu-west-1",
        "FollowedDeadLettersArn": "arn:aws:sqs:eu-west-1:123456789012:dead",
    });
    let copied = json!({"FollowedDatabaseArn": "arn:aws:rds:eu-west-1:123456789012:db:one", "FollowedRegion": "eu-west-1"});
    let existing =
        json!({"Database": "existing", "DatabaseUrl": "postgres://user:password@host/weir"});
    let databases = [
        json!({}),
        json!({"DatabaseReplica": "true"}),
        json!({"DatabaseProxy": "true", "DatabaseReplica": "true"}),
        json!({"DatabaseProxy": "true"}),
        existing.clone(),
        json!({
            "Database": "existing", "DatabaseUrl": "postgres://user@host/weir", "DatabaseAuth": "iam",
            "DatabaseConnectArn": "arn:aws:rds-db:us-east-1:123456789012:dbuser:db-ABC/user",
        }),
        together([&follows, &copied]),
        together([&follows, &existing]),
        // It has stopped following; then it is told who owns the database.
        copied.clone(),
        together([
            &copied,
            &json!({"MigrationUrl": "postgres://owner:password@host/weir"}),
        ]),
    ];
    let others = [
        json!({}),
        json!({
            "ExampleApi": "false", "AccessLogs": "true", "AuthorizerReservedConcurrency": "10",
            "AuthorizerProvisionedConcurrency": "2", "RefreshConcurrency": "0", "LogLevel": "debug",
        }),
        json!({
            "DomainName": "api.example.com", "DomainZoneId": "Z0123456789ABCDEFGHIJ", "GatewayRateLimit": "100",
            "DomainCertificateArn": "arn:aws:acm:us-east-1:123456789012:certificate/01234567-89ab-4def-8123-456789abcdef",
        }),
    ];
    let mut all = Vec::new();
    for (c, cache) in caches.iter().enumerate() {
        for (d, database) in databases.iter().enumerate() {
            let (network, other) = (&networks[(c + d) % 4], &others[(c + d) % 3]);
            all.push(together([cache, database, network, other]));
        }
    }
    all
}

fn together<const N: usize>(parts: [&Value; N]) -> Value {
    let entries = parts
        .into_iter()
        .flat_map(|part| part.as_object().unwrap().clone());
    Value::Object(entries.collect())
}

/// The logical ids that are meant somewhere in `node`.
fn meant<'a>(node: &'a Value, found: &mut BTreeSet<&'a str>) {
    match node {
        Value::Array(items) => items.iter().for_each(|item| meant(item, found)),
        Value::Object(entries) => {
            for (key, value) in entries {
                match (key.as_str(), value) {
                    ("Ref", Value::String(id)) => {
                        found.insert(id);
                    }
                    ("Fn::GetAtt", Value::Array(path)) => {
                        found.insert(path[0].as_str().unwrap());
                    }
                    ("DependsOn", Value::String(id)) => {
                        found.insert(id);
                    }
                    ("DependsOn", Value::Array(ids)) => {
                        found.extend(ids.iter().map(|id| id.as_str().unwrap()));
                    }
                    ("Fn::Sub", Value::String(text)) => found.extend(names_in_sub(text)),
                    ("Fn::Sub", Value::Array(parts)) => {
                        let own = parts[1].as_object().unwrap();
                        let names = names_in_sub(parts[0].as_str().unwrap());
                        found.extend(names.filter(|name| !own.contains_key(*name)));
                        meant(&parts[1], found);
                    }
                    _ => meant(value, found),
                }
            }
        }
        _ => {}
    }
}

fn names_in_sub(text: &str) -> impl Iterator<Item = &str> {
    text.split("${").skip(1).map(|rest| {
        let name = rest.split('}').next().unwrap();
        name.split('.').next().unwrap()
    })
}

#[test]
fn whatever_is_chosen_everything_that_is_meant_is_there() {
    let choices = choices();
    let templates = translate(&json!(choices), &[]);
    for (choice, template) in choices.iter().zip(templates.as_array().unwrap()) {
        let mut all = BTreeSet::new();
        meant(&template["Resources"], &mut all);
        meant(&template["Outputs"], &mut all);
        for id in all {
            let there = id.starts_with("AWS::") || template["Resources"].get(id).is_some();
            assert!(there, "{id} is not there with {choice}");
        }
        let text = template.to_string();
        assert!(!text.contains(r#""Fn::If":"#), "{choice}");
    }
}

#[test]
fn cfn_lint_finds_nothing_in_what_each_choice_makes() {
    // Each cache, each network, and most databases: it takes its time.
    let all = choices();
    let of_each: Vec<_> = (0..5).map(|at| &all[at * 10 + at * 2]).collect();
    let found = translate(&json!(of_each), &["--lint"]);
    for (choice, findings) in of_each.iter().zip(found.as_array().unwrap()) {
        assert_eq!(findings, &json!([]), "{choice}");
    }
}

/// The one name or text in an action or resource that may be one or several.
fn each(node: &Value) -> Vec<&Value> {
    match node {
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    }
}

/// What a function may do: each action with what it is for.
fn allowed(template: &Value, function: &str) -> BTreeSet<(String, String)> {
    let resources = &template["Resources"];
    let role = resources[function]["Properties"]["Role"]["Fn::GetAtt"][0]
        .as_str()
        .unwrap();
    let role = &resources[role]["Properties"];
    let managed = role["ManagedPolicyArns"].as_array().into_iter().flatten();
    let managed = managed.map(|arn| &resources[arn["Ref"].as_str().unwrap()]["Properties"]);
    let own = role["Policies"].as_array().unwrap().iter();
    let mut all = BTreeSet::new();
    for policy in managed.chain(own) {
        for statement in policy["PolicyDocument"]["Statement"].as_array().unwrap() {
            if statement["Effect"] != "Allow" {
                continue;
            }
            for action in each(&statement["Action"]) {
                for resource in each(&statement["Resource"]) {
                    let resource = match resource {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    };
                    all.insert((action.as_str().unwrap().to_owned(), resource));
                }
            }
        }
    }
    all
}

/// What every function needs that runs in a network and writes a log.
fn usual(log: &str) -> BTreeSet<(String, String)> {
    let interfaces = [
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    ];
    let log = json!({"Fn::GetAtt": [log, "Arn"]}).to_string();
    let logs = ["logs:CreateLogStream", "logs:PutLogEvents"].map(|action| (action, log.as_str()));
    interfaces
        .map(|action| (action, "*"))
        .into_iter()
        .chain(logs)
        .map(|(action, on)| (action.to_owned(), on.to_owned()))
        .collect()
}

#[test]
fn each_function_may_do_what_it_does_and_no_more() {
    const ACCOUNT: &str = "${AWS::Region}:${AWS::AccountId}";
    let sub = |text: String| json!({ "Fn::Sub": text }).to_string();
    let nodes = sub(format!(
        "arn:${{AWS::Partition}}:elasticache:{ACCOUNT}:replicationgroup:${{CacheNodes}}"
    ));
    let user = json!({"Fn::GetAtt": ["CacheUser", "Arn"]}).to_string();
    let cache = [
        ("elasticache:Connect", nodes.clone()),
        ("elasticache:Connect", user),
    ];
    let role = format!("arn:${{AWS::Partition}}:rds-db:{ACCOUNT}:dbuser:${{Id}}/weir");
    let instance = json!({"Fn::GetAtt": ["DatabaseInstance", "DbiResourceId"]});
    let database = json!({"Fn::Sub": [role, {"Id": instance}]}).to_string();
    let database = [("rds-db:connect", database)];
    let topic = [("sns:Publish", json!({"Ref": "RulesTopic"}).to_string())];
    let dead = json!({"Fn::GetAtt": ["RefreshDeadLetters", "Arn"]}).to_string();
    let dead = [("sqs:SendMessage", dead)];
    let instance = json!({"Fn::GetAtt": ["DatabaseInstance", "DBInstanceArn"]}).to_string();
    let health = [
        ("elasticache:DescribeEvents", "*".to_owned()),
        ("elasticache:DescribeReplicationGroups", nodes.clone()),
        ("rds:DescribeDBInstances", instance),
        ("rds:DescribeEvents", "*".to_owned()),
    ];
    let template = deployed(json!({}));
    for (function, log, more) in [
        ("AuthorizerFunction", "AuthorizerLogs", vec![&cache[..]]),
        ("CheckFunction", "CheckLogs", vec![&cache[..]]),
        (
            "RulesFunction",
            "RulesLogs",
            vec![&cache[..], &database[..], &topic[..]],
        ),
        (
            "ClientsFunction",
            "ClientsLogs",
            vec![&database[..], &topic[..]],
        ),
        (
            "RefreshFunction",
            "RefreshLogs",
            vec![&cache[..], &database[..], &dead[..], &health[..]],
        ),
        ("MigrateFunction", "MigrateLogs", vec![]),
    ] {
        let mut wanted = usual(log);
        let more = more.into_iter().flatten();
        wanted.extend(more.map(|(action, on)| ((*action).to_owned(), on.clone())));
        assert_eq!(allowed(template, function), wanted, "{function}");
    }
    let backend = allowed(template, "BackendFunction");
    let logs = usual("BackendLogs");
    let logs: BTreeSet<_> = logs
        .into_iter()
        .filter(|(action, _)| action.starts_with("logs:"))
        .collect();
    assert_eq!(backend, logs);
}

#[test]
fn what_runs_in_a_network_has_its_interfaces_made_by_lambda_and_not_by_its_code() {
    let statements = resources()["NetworkAccess"]["Properties"]["PolicyDocument"]["Statement"]
        .as_array()
        .unwrap();
    assert_eq!(statements[0]["Action"], statements[1]["Action"]);
    assert_eq!(statements[1]["Effect"], "Deny");
    let whose = &statements[1]["Condition"]["ArnLike"]["lambda:SourceFunctionArn"];
    assert!(whose["Fn::Sub"].as_str().unwrap().ends_with(":function:*"));
}

#[test]
fn where_the_database_is_a_copy_or_behind_a_proxy_the_functions_log_in_there() {
    let log_in = |parameters: Value, function: &str| {
        let of_database: Vec<_> = allowed(deployed(parameters), function)
            .into_iter()
            .filter(|(action, _)| action == "rds-db:connect")
            .map(|(_, resource)| resource)
            .collect();
        assert_eq!(of_database.len(), 1, "{function}");
        of_database.into_iter().next().unwrap()
    };
    let both = json!({"DatabaseProxy": "true", "DatabaseReplica": "true"});
    assert!(log_in(both.clone(), "RulesFunction").contains("ProxyOfDatabase"));
    assert!(log_in(both, "RefreshFunction").contains("DatabaseCopy"));
    let follows = json!({
        "FollowedTopicArn": "arn:aws:sns:eu-west-1:123456789012:rules", "FollowedRegion": "eu-west-1",
        "FollowedDatabaseArn": "arn:aws:rds:eu-west-1:123456789012:db:one",
    });
    for function in ["RulesFunction", "RefreshFunction"] {
        assert!(log_in(follows.clone(), function).contains("DatabaseCopy"));
        let environment = &deployed(follows.clone())["Resources"][function]["Properties"]["Environment"]
            ["Variables"];
        assert!(
            environment["DATABASE_URL"]
                .to_string()
                .contains("DatabaseCopy")
        );
    }
}

#[test]
fn a_region_that_follows_hears_the_other_ones_topic_and_writes_nothing() {
    let template = deployed(json!({
        "FollowedTopicArn": "arn:aws:sns:eu-west-1:123456789012:rules", "FollowedRegion": "eu-west-1",
        "FollowedDeadLettersArn": "arn:aws:sqs:eu-west-1:123456789012:dead",
        "FollowedDatabaseArn": "arn:aws:rds:eu-west-1:123456789012:db:one",
    }));
    let resources = template["Resources"].as_object().unwrap();
    for id in [
        "ClientsFunction",
        "MigrateFunction",
        "Migration",
        "RulesTopic",
        "DatabaseInstance",
    ] {
        assert!(!resources.contains_key(id), "{id}");
    }
    let subscription = &resources["RefreshFunctionAnnouncement"]["Properties"];
    assert_eq!(
        subscription["TopicArn"],
        "arn:aws:sns:eu-west-1:123456789012:rules"
    );
    assert_eq!(subscription["Region"], "eu-west-1");
    let dead = &subscription["RedrivePolicy"]["deadLetterTargetArn"];
    assert_eq!(dead, "arn:aws:sqs:eu-west-1:123456789012:dead");
    let variables = &resources["RulesFunction"]["Properties"]["Environment"]["Variables"];
    assert_eq!(variables["RULES_TOPIC_ARN"], "");
    let copy = &resources["DatabaseCopy"]["Properties"];
    assert_eq!(
        copy["SourceDBInstanceIdentifier"],
        "arn:aws:rds:eu-west-1:123456789012:db:one"
    );
    assert_eq!(copy["SourceRegion"], "eu-west-1");
}

#[test]
fn a_region_that_stops_following_keeps_its_copy_which_follows_nobody_then() {
    let copied = json!({
        "FollowedDatabaseArn": "arn:aws:rds:eu-west-1:123456789012:db:one", "FollowedRegion": "eu-west-1",
    });
    let topic = json!({"FollowedTopicArn": "arn:aws:sns:eu-west-1:123456789012:rules"});
    let owner = json!({"MigrationUrl": "postgres://owner:password@host/weir"});
    let before = deployed(together([&copied, &topic]));
    let template = deployed(copied.clone());
    let resources = template["Resources"].as_object().unwrap();
    assert!(!resources.contains_key("DatabaseInstance"));
    // Whatever else changed might have CloudFormation make another database, an empty one.
    let mut copy = before["Resources"]["DatabaseCopy"].clone();
    let of_copy = copy["Properties"].as_object_mut().unwrap();
    assert!(of_copy.remove("SourceDBInstanceIdentifier").is_some());
    assert_eq!(resources["DatabaseCopy"], copy);
    let rules = &resources["RulesFunction"]["Properties"]["Environment"]["Variables"];
    assert!(rules["DATABASE_URL"].to_string().contains("DatabaseCopy"));
    assert_eq!(rules["RULES_TOPIC_ARN"], json!({"Ref": "RulesTopic"}));
    // Its schema is there; who owns it may be told later.
    assert!(!resources.contains_key("Migration"));
    assert!(!resources.contains_key("MigrateFunction"));
    let resources = &deployed(together([&copied, &owner]))["Resources"];
    let migrate = &resources["MigrateFunction"]["Properties"]["Environment"]["Variables"];
    assert_eq!(
        migrate["DATABASE_URL"],
        "postgres://owner:password@host/weir"
    );
    let after = resources["Migration"]["Properties"]["After"].as_array();
    assert!(after.unwrap().contains(&json!({"Ref": "DatabaseCopy"})));
}

#[test]
fn the_authorizer_is_asked_by_its_alias_which_has_the_warm_containers() {
    let template = deployed(json!({"AuthorizerProvisionedConcurrency": "3"}));
    let resources = &template["Resources"];
    let alias = json!({"Ref": "AuthorizerFunctionAliaslive"});
    let warm =
        &resources["AuthorizerFunctionAliaslive"]["Properties"]["ProvisionedConcurrencyConfig"];
    assert_eq!(warm["ProvisionedConcurrentExecutions"], "3");
    let schemes = &body("ProtectedApi")["components"]["securitySchemes"];
    let uri = &schemes["Weir"]["x-amazon-apigateway-authorizer"]["authorizerUri"]["Fn::Sub"];
    assert_eq!(
        uri[1].as_object().unwrap().values().collect::<Vec<_>>(),
        [&alias]
    );
    let permission = &resources["ProtectedApiWeirAuthorizerPermission"]["Properties"];
    assert_eq!(permission["FunctionName"], alias);
    assert_eq!(template["Outputs"]["AuthorizerArn"]["Value"], alias);
    let usual = &deployed(json!({}))["Resources"]["AuthorizerFunctionAliaslive"]["Properties"];
    assert_eq!(usual.get("ProvisionedConcurrencyConfig"), None);
}

#[test]
fn what_cannot_be_announced_and_what_refresh_fails_at_is_kept() {
    let announcement = &resources()["RefreshFunctionAnnouncement"]["Properties"]["RedrivePolicy"];
    let queue = json!({"Fn::GetAtt": ["AnnouncementDeadLetters", "Arn"]});
    assert_eq!(announcement["deadLetterTargetArn"], queue);
    let policy =
        &resources()["AnnouncementDeadLettersPolicy"]["Properties"]["PolicyDocument"]["Statement"];
    assert_eq!(
        policy[0]["Principal"],
        json!({"Service": "sns.amazonaws.com"})
    );
    assert_eq!(
        policy[0]["Condition"]["ArnEquals"]["aws:SourceArn"],
        json!({"Ref": "RulesTopic"})
    );
    let failed = &resources()["RefreshFunctionEventInvokeConfig"]["Properties"]["DestinationConfig"]
        ["OnFailure"];
    let queue = json!({"Fn::GetAtt": ["RefreshDeadLetters", "Arn"]});
    assert_eq!(failed["Destination"], queue);
}

/// Every resource of a kind in any of a few templates that together have all of them.
fn of_kind(kind: &str) -> Vec<(String, &'static Value)> {
    let all = [
        json!({}),
        json!({"Cache": "serverless", "DatabaseProxy": "true", "DatabaseReplica": "true"}),
        json!({"Network": "existing", "VpcId": "vpc-11111111", "SubnetIds": "subnet-11111111", "CacheClusterMode": "enabled"}),
    ];
    let found: Vec<_> = all
        .into_iter()
        .flat_map(|parameters| deployed(parameters)["Resources"].as_object().unwrap())
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(id, resource)| (id.clone(), resource))
        .collect();
    assert!(!found.is_empty(), "{kind}");
    found
}

#[test]
fn nothing_has_a_public_address_or_a_way_out() {
    for template in [
        deployed(json!({})),
        deployed(json!({"AvailabilityZones": "3"})),
    ] {
        for (id, resource) in template["Resources"].as_object().unwrap() {
            let kind = resource["Type"].as_str().unwrap();
            for public in ["InternetGateway", "NatGateway", "EIP", "EC2::Route\""] {
                assert!(!format!("{kind}\"").contains(public), "{id}");
            }
        }
    }
    for (id, subnet) in of_kind("AWS::EC2::Subnet") {
        assert_eq!(subnet["Properties"]["MapPublicIpOnLaunch"], false, "{id}");
    }
    for (id, instance) in of_kind("AWS::RDS::DBInstance") {
        assert_eq!(instance["Properties"]["PubliclyAccessible"], false, "{id}");
    }
    for (id, group) in of_kind("AWS::EC2::SecurityGroup") {
        let properties = &group["Properties"];
        for rule in properties["SecurityGroupIngress"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let from = &rule["SourceSecurityGroupId"]["Fn::GetAtt"][0];
            assert!(
                ["FunctionsSecurityGroup", "ProxySecurityGroup"].contains(&from.as_str().unwrap()),
                "{id}: {rule}"
            );
        }
        if id != "FunctionsSecurityGroup" {
            assert_eq!(
                properties["SecurityGroupEgress"][0]["CidrIp"], "127.0.0.1/32",
                "{id}"
            );
        }
    }
}

#[test]
fn what_is_kept_and_what_travels_is_encrypted() {
    for (id, cache) in of_kind("AWS::ElastiCache::ReplicationGroup") {
        for flag in ["AtRestEncryptionEnabled", "TransitEncryptionEnabled"] {
            assert_eq!(cache["Properties"][flag], true, "{id} {flag}");
        }
        assert_eq!(
            cache["Properties"]["UserGroupIds"],
            json!([{"Ref": "CacheUsers"}])
        );
    }
    for (id, cache) in of_kind("AWS::ElastiCache::ServerlessCache") {
        assert_eq!(
            cache["Properties"]["UserGroupId"],
            json!({"Ref": "CacheUsers"}),
            "{id}"
        );
    }
    for (id, instance) in of_kind("AWS::RDS::DBInstance") {
        let properties = &instance["Properties"];
        let copied = properties.get("SourceDBInstanceIdentifier").is_some();
        assert!(copied || properties["StorageEncrypted"] == true, "{id}");
        assert_eq!(properties["EnableIAMDatabaseAuthentication"], true, "{id}");
    }
    for (id, proxy) in of_kind("AWS::RDS::DBProxy") {
        assert_eq!(proxy["Properties"]["RequireTLS"], true, "{id}");
        assert_eq!(proxy["Properties"]["DefaultAuthScheme"], "IAM_AUTH", "{id}");
    }
    for (id, queue) in of_kind("AWS::SQS::Queue") {
        assert_eq!(queue["Properties"]["SqsManagedSseEnabled"], true, "{id}");
    }
    assert_eq!(
        resources()["RulesTopic"]["Properties"]["KmsMasterKeyId"],
        "alias/aws/sns"
    );
    for (id, function) in of_kind("AWS::Lambda::Function") {
        for (name, value) in function["Properties"]["Environment"]["Variables"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let text = value.to_string();
            assert!(
                !text.contains("redis://") && !text.contains("redis+cluster://"),
                "{id} {name}: {text}"
            );
            assert!(
                !text.contains("postgres://") || text.contains("sslmode=require"),
                "{id} {name}: {text}"
            );
        }
    }
}

#[test]
fn a_database_is_neither_deleted_by_mistake_nor_without_a_snapshot() {
    for (id, instance) in of_kind("AWS::RDS::DBInstance") {
        assert_eq!(instance["DeletionPolicy"], "Snapshot", "{id}");
        assert_eq!(instance["UpdateReplacePolicy"], "Snapshot", "{id}");
    }
    let instance = &resources()["DatabaseInstance"]["Properties"];
    assert_eq!(instance["DeletionProtection"], "true");
    assert_eq!(instance["MultiAZ"], "true");
    let owner = &resources()["DatabaseOwner"];
    assert_eq!(owner["DeletionPolicy"], "Retain");
}

#[test]
fn one_node_may_fail() {
    let nodes = &resources()["CacheNodes"]["Properties"];
    assert_eq!(nodes["AutomaticFailoverEnabled"], true);
    assert_eq!(nodes["MultiAZEnabled"], true);
    let alone = &deployed(json!({"CacheReplicas": "0"}))["Resources"]["CacheNodes"]["Properties"];
    assert_eq!(alone["AutomaticFailoverEnabled"], false);
    assert_eq!(alone["MultiAZEnabled"], false);
    let cluster = json!({"CacheReplicas": "0", "CacheClusterMode": "enabled", "CacheShards": "2"});
    let cluster = &deployed(cluster)["Resources"]["CacheNodes"]["Properties"];
    assert_eq!(cluster["AutomaticFailoverEnabled"], true);
    assert_eq!(cluster["NumNodeGroups"], "2");
}

#[test]
fn the_schema_comes_before_who_reads_and_they_before_who_writes() {
    for function in ["AuthorizerFunction", "CheckFunction", "RefreshFunction"] {
        let tags = resources()[function]["Properties"]["Tags"]
            .as_array()
            .unwrap();
        let wait = tags.iter().find(|tag| tag["Key"] == "weir-schema").unwrap();
        assert_eq!(wait["Value"], json!({"Ref": "Migration"}), "{function}");
    }
    for function in ["RulesFunction", "ClientsFunction"] {
        let after = &resources()[function]["DependsOn"];
        assert_eq!(
            after,
            &json!(["AuthorizerFunction", "CheckFunction", "RefreshFunction"])
        );
    }
    let version = resources()["Migration"]["Properties"]["Version"]["Ref"]
        .as_str()
        .unwrap();
    assert_eq!(resources()[version]["Type"], "AWS::Lambda::Version");
    let migrate = &resources()["MigrateFunction"]["Properties"]["Environment"]["Variables"];
    let through_proxy = deployed(json!({"DatabaseProxy": "true"}));
    let as_well =
        &through_proxy["Resources"]["MigrateFunction"]["Properties"]["Environment"]["Variables"];
    assert_eq!(as_well["DATABASE_URL"], migrate["DATABASE_URL"]);
    assert!(
        migrate["DATABASE_URL"]
            .to_string()
            .contains("DatabaseInstance.Endpoint.Address")
    );
}

/// The functions that the page of settings is about.
const SETTABLE: [Function; 6] = [
    Function::Authorizer,
    Function::Check,
    Function::Rules,
    Function::Clients,
    Function::Refresh,
    Function::Migrate,
];

/// The variables that the page of settings names, each with the functions that read it.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let settings = include_str!("../../docs/settings.md");
    let mut of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in settings.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split('|').skip(1);
        let (names, functions) = (cells.next().unwrap(), cells.next().unwrap());
        let functions = match functions.trim().strip_prefix("as `") {
            Some(other) => of[other.trim_end_matches('`')].clone(),
            None => SETTABLE
                .map(Function::name)
                .into_iter()
                .filter(|function| functions.contains(function) || functions.trim() == "all")
                .map(str::to_owned)
                .collect(),
        };
        for name in names.split('`').skip(1).step_by(2) {
            of.insert(name.to_owned(), functions.clone());
        }
    }
    assert!(of.len() > 20, "{of:?}");
    of
}

fn variables(parameters: Value, function: &str) -> &'static Map<String, Value> {
    let mut letters = function.chars();
    let id: String = letters
        .next()
        .unwrap()
        .to_uppercase()
        .chain(letters)
        .collect();
    let id = format!("{id}Function");
    let variables =
        &deployed(parameters)["Resources"][id]["Properties"]["Environment"]["Variables"];
    variables.as_object().unwrap()
}

#[test]
fn every_setting_can_be_set_by_a_parameter_save_one_for_a_developers_machine() {
    for (name, functions) in documented() {
        for function in functions {
            let set = variables(json!({"LogLevel": "info"}), &function).contains_key(&name);
            // Whoever could reach the check API would ask about everyone.
            assert_eq!(set, name != "CHECK_ANONYMOUS", "{function} {name}");
        }
    }
}

#[test]
fn no_function_is_told_what_it_does_not_read() {
    let documented = documented();
    for function in SETTABLE.map(Function::name) {
        for name in variables(json!({"LogLevel": "info"}), function).keys() {
            let known = documented.get(name).is_some_and(|of| of.contains(function));
            assert!(known, "{function} does not read {name}");
        }
    }
}

#[tokio::test]
async fn what_is_left_empty_is_as_if_it_were_not_set() {
    for function in SETTABLE {
        let stores = ["REDIS_URL", "REDIS_AUTH", "DATABASE_URL", "DATABASE_AUTH"];
        let mut all: BTreeMap<_, _> = variables(json!({}), function.name())
            .iter()
            .filter(|(name, _)| !stores.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        all.insert("REDIS_URL".to_owned(), "memory://".to_owned());
        all.insert("DATABASE_URL".to_owned(), "memory://".to_owned());
        let container = Container::start(function, all).await;
        let ready = container.ready().await;
        assert_eq!(ready, Ok(()), "{}: {}", function.name(), container.logs());
    }
}

#[test]
fn an_api_of_ones_own_is_attached_as_the_templates_is() {
    let context = serde_json::to_value(authorizer::answer::Context::default()).unwrap();
    for (text, uncached) in [
        (
            include_str!("../../docs/attach-sam.yaml"),
            "ReauthorizeEvery: 0",
        ),
        (
            include_str!("../../docs/attach-openapi.yaml"),
            "authorizerResultTtlInSeconds: 0",
        ),
        (
            include_str!("../../docs/attach-cloudformation.yaml"),
            "AuthorizerResultTtlInSeconds: 0",
        ),
    ] {
        assert!(text.contains(uncached));
        assert!(!text.contains("IdentitySource") && !text.contains("identitySource"));
        let keys = text.split("context.authorizer.").skip(1).map(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric());
            &rest[..end.unwrap_or(rest.len())]
        });
        let keys: BTreeSet<_> = keys.collect();
        assert!(keys.contains("retryAfter") && keys.contains("rateLimit"));
        for key in keys {
            assert!(context.get(key).is_some(), "nobody emits {key}");
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap();
    let linted = std::process::Command::new(root.join(".tools/venv/bin/cfn-lint"))
        .args(["--regions", "us-east-1", "--", "docs/*.yaml"])
        .current_dir(root)
        .output()
        .unwrap();
    let found = String::from_utf8_lossy(&linted.stdout);
    assert!(linted.status.success() && found.is_empty(), "{found}");
}

#[test]
fn nobody_is_let_in_by_a_wildcard() {
    let mut permissions = 0;
    for (id, resource) in resources().as_object().unwrap() {
        let properties = &resource["Properties"];
        match resource["Type"].as_str().unwrap() {
            "AWS::Lambda::Permission" => {
                permissions += 1;
                let service = properties["Principal"].as_str().unwrap();
                assert!(service.ends_with(".amazonaws.com"), "{id}: {service}");
                assert!(properties["SourceArn"].is_object(), "{id}");
                assert_ne!(properties["Action"], "lambda:InvokeFunctionUrl", "{id}");
            }
            "AWS::ApiGateway::RestApi" => {
                let policy = properties["Body"].get("x-amazon-apigateway-policy");
                assert_eq!(policy, None, "{id}");
                assert_eq!(properties.get("Policy"), None, "{id}");
            }
            // An endpoint is asked from within the network alone, and ElastiCache takes no other policy for its topic.
            "AWS::EC2::VPCEndpoint" => {}
            _ if id == "CacheTopicPolicy" => {
                let statement = &properties["PolicyDocument"]["Statement"][0];
                let whose = &statement["Condition"]["StringEquals"]["aws:SourceOwner"];
                assert_eq!(whose, &json!({"Ref": "AWS::AccountId"}));
            }
            _ => {
                let text = properties.to_string();
                let wildcards = [r#""Principal":"*""#, r#""Principal":{"AWS":"*"}"#];
                assert!(!wildcards.iter().any(|any| text.contains(any)), "{id}");
            }
        }
    }
    assert!(permissions > 5, "{permissions}");
}

#[test]
fn whoever_is_given_leave_to_ask_hands_check_no_event_of_his_own() {
    let guide = include_str!("../../docs/deploying.md").lines();
    let guide = guide.filter(|line| line.starts_with(r#"{ "Effect""#));
    let told = guide.map(|line| serde_json::from_str(line).unwrap());
    let asks = &resources()["CanaryAsks"]["Properties"]["PolicyDocument"]["Statement"];
    let asks = asks.as_array().unwrap().iter().cloned();
    let mut conditions = 0;
    for statement in told.chain(asks) {
        let statement: Value = statement;
        if each(&statement["Action"]).contains(&&json!("lambda:InvokeFunction")) {
            let by_url = &statement["Condition"]["Bool"]["lambda:InvokedViaFunctionUrl"];
            assert!(*by_url == true || by_url == "true", "{statement}");
            conditions += 1;
        }
    }
    assert_eq!(conditions, 2);
}
