//! What the template watches, held against what the code emits and what the runbook explains.

use std::collections::{BTreeMap, BTreeSet};

use aws::metrics::{LIST, Metric};
use serde_json::{Value, json};
use tests::template::deployed;
use tests::{Function, Operator};

use crate::check::{event, send};

const RUNBOOK: &str = include_str!("../../docs/operating.md");

/// What our metrics are under, in a stack whose name is the pseudo parameter's.
const NAMESPACE: &str = "Weir/AWS::StackName";

/// Metrics of AWS's own that are watched, with the dimension that each is read under and the kind of resource that gives its value.
const KNOWN: [(&str, &str, &str, &str); 5] = [
    (
        "AWS/Lambda",
        "Errors",
        "FunctionName",
        "AWS::Lambda::Function",
    ),
    (
        "AWS/Lambda",
        "Throttles",
        "FunctionName",
        "AWS::Lambda::Function",
    ),
    (
        "AWS/Lambda",
        "Duration",
        "FunctionName",
        "AWS::Lambda::Function",
    ),
    (
        "AWS/Lambda",
        "ConcurrentExecutions",
        "FunctionName",
        "AWS::Lambda::Function",
    ),
    (
        "AWS/SQS",
        "ApproximateNumberOfMessagesVisible",
        "QueueName",
        "AWS::SQS::Queue",
    ),
];

/// A first region, and all that can be shown.
pub(crate) fn whole() -> &'static Value {
    deployed(json!({"AlarmEmail": "a@b", "OtherRegion": "eu-west-1"}))
}

/// One that follows another, and shows nothing else.
fn following() -> &'static Value {
    deployed(json!({
        "FollowedTopicArn": "arn:aws:sns:eu-west-1:1:rules",
        "FollowedRegion": "eu-west-1",
        "FollowedDatabaseArn": "arn:aws:rds:eu-west-1:1:db:weir",
    }))
}

fn of_type<'a>(template: &'a Value, kind: &str) -> BTreeMap<&'a str, &'a Value> {
    let all = template["Resources"].as_object().unwrap().iter();
    let found = all.filter(|(_, resource)| resource["Type"] == kind);
    found
        .map(|(id, resource)| (id.as_str(), &resource["Properties"]))
        .collect()
}

pub(crate) fn alarms(template: &Value) -> BTreeMap<&str, &Value> {
    of_type(template, "AWS::CloudWatch::Alarm")
}

/// A text with what only a deployment knows told by name: a resource by its logical id, what it gives as `Id.Attribute`.
fn text(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    if let Some(id) = value["Ref"].as_str() {
        return id.to_owned();
    }
    if let Some(parts) = value["Fn::GetAtt"].as_array() {
        return format!("{}.{}", text(&parts[0]), text(&parts[1]));
    }
    let (pattern, names) = match &value["Fn::Sub"] {
        Value::Array(parts) => (text(&parts[0]), parts[1].clone()),
        pattern => (text(pattern), Value::Null),
    };
    let mut pieces = pattern.split("${");
    let mut whole = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once('}').unwrap();
        let named = names.get(name).map(text);
        whole += &named.unwrap_or_else(|| name.to_owned());
        whole += rest;
    }
    whole
}

/// A series of numbers that somebody looks at.
#[derive(Debug)]
pub(crate) struct Series {
    namespace: String,
    pub(crate) metric: String,
    /// Name and value; no value is every one that there is.
    pub(crate) dimensions: Vec<(String, Option<String>)>,
}

impl Series {
    /// As alarms name one.
    fn named(metric: &Value) -> Self {
        let dimensions = metric["Dimensions"].as_array().unwrap().iter();
        Self {
            namespace: text(&metric["Namespace"]),
            metric: text(&metric["MetricName"]),
            dimensions: dimensions
                .map(|one| (text(&one["Name"]), Some(text(&one["Value"]))))
                .collect(),
        }
    }

    /// As a query of Metrics Insights does, of the one form that is used.
    fn selected(query: &str) -> Option<Self> {
        let (metric, schema) = query
            .strip_prefix("SELECT SUM(")?
            .split_once(") FROM SCHEMA(\"")
            .unwrap();
        let (namespace, dimension) = schema
            .strip_suffix("\")")
            .unwrap()
            .split_once("\", \"")
            .unwrap();
        Some(Self {
            namespace: namespace.to_owned(),
            metric: metric.to_owned(),
            dimensions: vec![(dimension.to_owned(), None)],
        })
    }

    /// As dashboards list one: namespace, name, dimensions, and perhaps how it is drawn.
    fn drawn(metric: &Value) -> Self {
        let words = metric.as_array().unwrap().iter();
        let words: Vec<String> = words.filter(|word| word.is_string()).map(text).collect();
        let (pairs, rest) = words[2..].as_chunks::<2>();
        assert!(rest.is_empty(), "{metric}");
        Self {
            namespace: words[0].clone(),
            metric: words[1].clone(),
            dimensions: pairs
                .iter()
                .map(|[name, value]| (name.clone(), Some(value.clone())))
                .collect(),
        }
    }

    /// Ours, as the code emits it.
    pub(crate) fn ours(&self) -> Option<&'static Metric> {
        (self.namespace == NAMESPACE).then(|| {
            let found = LIST.iter().find(|metric| metric.name == self.metric);
            found.unwrap_or_else(|| panic!("nobody emits {}", self.metric))
        })
    }

    /// Fails where nothing sends such numbers.
    fn exists(&self, template: &Value) {
        let [(dimension, value)] = self.dimensions.as_slice() else {
            panic!("{self:?}");
        };
        if let Some(metric) = self.ours() {
            assert_eq!(dimension, "Function", "{self:?}");
            let emits = |function: &&str| {
                let mut functions = metric.functions.iter();
                functions.any(|emitting| emitting.as_str() == *function)
            };
            assert!(value.as_deref().as_ref().is_none_or(emits), "{self:?}");
            return;
        }
        let known = KNOWN.iter().find(|(namespace, metric, ..)| {
            (*namespace, *metric) == (self.namespace.as_str(), self.metric.as_str())
        });
        let (_, _, named, kind) = known.unwrap_or_else(|| panic!("AWS has no {self:?}"));
        assert_eq!(dimension, named, "{self:?}");
        let value = value.as_deref().unwrap();
        let id = value.strip_suffix(".QueueName").unwrap_or(value);
        // What a region that follows another does not have is drawn there all the same.
        let absent = value == "none";
        assert!(
            absent || of_type(template, kind).contains_key(id),
            "{self:?}"
        );
    }
}

/// What an alarm watches.
pub(crate) fn watched(alarm: &Value) -> Vec<Series> {
    if alarm.get("MetricName").is_some() {
        return vec![Series::named(alarm)];
    }
    let queries = alarm["Metrics"].as_array().unwrap().iter();
    queries
        .filter_map(|query| match query.get("MetricStat") {
            Some(stat) => Some(Series::named(&stat["Metric"])),
            None => Series::selected(&text(&query["Expression"])),
        })
        .collect()
}

/// Whether an expression reads a Contributor Insights rule; one that there is.
fn insight(template: &Value, expression: &str) -> bool {
    let rule = expression
        .strip_prefix("INSIGHT_RULE_METRIC('")
        .and_then(|rest| rest.strip_suffix(".RuleName', 'MaxContributorValue')"));
    let rules = of_type(template, "AWS::CloudWatch::InsightRule");
    assert!(
        rule.is_none_or(|rule| rules.contains_key(rule)),
        "{expression}"
    );
    rule.is_some()
}

/// The names in an expression that stand for numbers: neither functions nor what is in quotes.
fn variables(expression: &str) -> BTreeSet<&str> {
    let quoted = expression.split('\'').step_by(2);
    quoted
        .flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric()))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect()
}

/// The headings of a level in a part of the runbook, as they are linked to.
fn sections(part: &str, level: &str) -> BTreeSet<String> {
    let headings = part.lines().filter_map(|line| line.strip_prefix(level));
    headings
        .map(|heading| heading.trim().to_lowercase().replace(' ', "-"))
        .collect()
}

fn about_alarms() -> &'static str {
    let (_, rest) = RUNBOOK.split_once("\n## Alarms\n").unwrap();
    rest.split_once("\n## ").unwrap().0
}

#[test]
fn every_metric_that_an_alarm_watches_is_sent_by_whom_it_names() {
    for template in [whole(), following()] {
        for (id, alarm) in alarms(template) {
            let series = watched(alarm);
            let expression = alarm["Metrics"][0].get("Expression");
            let reads_insight = expression.is_some_and(|read| insight(template, &text(read)));
            assert!(reads_insight || !series.is_empty(), "{id} watches nothing");
            for one in series {
                one.exists(template);
            }
        }
    }
}

#[test]
fn functions_send_their_metrics_where_alarms_look_for_them() {
    for template in [whole(), following()] {
        let functions = of_type(template, "AWS::Lambda::Function");
        let ours = functions.iter().filter(|(id, _)| **id != "BackendFunction");
        for (id, function) in ours {
            let namespace = &function["Environment"]["Variables"]["METRICS_NAMESPACE"];
            assert_eq!(text(namespace), NAMESPACE, "{id}");
        }
    }
}

#[test]
fn an_alarm_that_calculates_names_all_that_it_calculates_with_and_returns_one_series() {
    for (id, alarm) in alarms(whole()) {
        let Some(queries) = alarm["Metrics"].as_array() else {
            continue;
        };
        let declared: BTreeSet<_> = queries.iter().map(|query| text(&query["Id"])).collect();
        assert_eq!(declared.len(), queries.len(), "{id}");
        let returned = queries.iter().filter(|query| query["ReturnData"] != false);
        let [returned] = returned.collect::<Vec<_>>()[..] else {
            panic!("{id} returns other than one series");
        };
        let expression = text(&returned["Expression"]);
        if expression.starts_with("SELECT") || expression.contains("METRICS()") {
            continue;
        }
        for variable in variables(&expression) {
            assert!(declared.contains(variable), "{id}: {variable}");
        }
        let used = variables(&expression).len() + 1;
        assert_eq!(used, queries.len(), "{id} reads what it does not use");
    }
}

#[test]
fn every_alarm_says_what_no_data_means_and_tells_when_it_begins_and_ends() {
    for (id, alarm) in alarms(whole()) {
        assert!(alarm["TreatMissingData"].is_string(), "{id}");
    }
    let composites = of_type(whole(), "AWS::CloudWatch::CompositeAlarm");
    for (id, alarm) in alarms(whole()).into_iter().chain(composites) {
        for actions in ["AlarmActions", "OKActions"] {
            assert_eq!(alarm[actions], json!([{"Ref": "AlarmTopic"}]), "{id}");
        }
    }
}

#[test]
fn whoever_is_named_is_told_by_mail_and_nobody_else() {
    let mail = |template| {
        let subscriptions = of_type(template, "AWS::SNS::Subscription");
        let mail = subscriptions
            .into_values()
            .find(|one| one["Protocol"] == "email");
        mail.map(|one| (text(&one["TopicArn"]), text(&one["Endpoint"])))
    };
    assert_eq!(mail(whole()), Some(("AlarmTopic".into(), "a@b".into())));
    assert_eq!(mail(following()), None);
}

#[test]
fn cloudwatch_may_use_the_key_of_the_topic_that_it_tells() {
    let topic = &of_type(whole(), "AWS::SNS::Topic")["AlarmTopic"];
    let key = text(&topic["KmsMasterKeyId"]);
    let statements = &of_type(whole(), "AWS::KMS::Key")[key.as_str()]["KeyPolicy"]["Statement"];
    let of_alarms = statements
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["Principal"] == json!({"Service": "cloudwatch.amazonaws.com"}));
    assert_eq!(
        of_alarms.unwrap()["Action"],
        json!(["kms:Decrypt", "kms:GenerateDataKey*"])
    );
}

#[test]
fn every_alarm_leads_to_a_section_of_the_runbook_and_every_section_has_an_alarm() {
    let explained = sections(about_alarms(), "### ");
    assert!(explained.len() > 20, "{explained:?}");
    let mut named = BTreeSet::new();
    let composites = of_type(whole(), "AWS::CloudWatch::CompositeAlarm");
    for (id, alarm) in alarms(whole()).into_iter().chain(composites) {
        let description = text(&alarm["AlarmDescription"]);
        assert!(description.len() <= 1024, "{id}");
        let (_, section) = description
            .rsplit_once(" docs/operating.md#")
            .unwrap_or_else(|| panic!("{id} leads nowhere"));
        assert!(explained.contains(section), "{id}: no section {section}");
        named.insert(section.to_owned());
    }
    assert_eq!(named, explained);
}

#[test]
fn every_link_within_the_runbook_leads_somewhere() {
    let known: BTreeSet<_> = ["## ", "### "]
        .iter()
        .flat_map(|level| sections(RUNBOOK, level))
        .collect();
    let links: Vec<_> = RUNBOOK
        .split("](#")
        .skip(1)
        .map(|rest| rest.split_once(')').unwrap().0)
        .collect();
    assert!(!links.is_empty());
    for link in links {
        assert!(known.contains(link), "{link}");
    }
}

#[test]
fn a_region_is_unwell_when_it_cannot_decide_and_never_because_callers_are_throttled() {
    let template = whole();
    let unwell = &of_type(template, "AWS::CloudWatch::CompositeAlarm")["AuthorizerUnwell"];
    let rule = text(&unwell["AlarmRule"]);
    let children: Vec<_> = rule
        .split(" OR ")
        .map(|child| child.trim().strip_prefix("ALARM(\"").unwrap())
        .map(|child| child.strip_suffix("\")").unwrap())
        .collect();
    let alarms = alarms(template);
    for child in &children {
        let alarm = alarms.get(child).unwrap_or_else(|| panic!("no {child}"));
        let series = watched(alarm);
        assert!(
            series.iter().all(|one| one.metric != "Throttled"),
            "{child}"
        );
    }
    let out = [
        "AuthorizerErrorsAlarm",
        "AuthorizerStoreOutAlarm",
        "AuthorizerThrottlesAlarm",
    ];
    assert_eq!(
        children.iter().collect::<BTreeSet<_>>(),
        out.iter().collect()
    );
    // Those that the runbook gives to Route 53, which knows neither arithmetic nor some of many.
    for plain in &out[1..] {
        assert!(about_alarms().contains(&format!("`{plain}`")));
        assert!(alarms[plain]["MetricName"].is_string(), "{plain}");
        assert_eq!(alarms[plain].get("DatapointsToAlarm"), None, "{plain}");
    }
}

/// The dashboard's widgets.
fn widgets(template: &Value) -> Vec<Value> {
    let body = text(&of_type(template, "AWS::CloudWatch::Dashboard")["Dashboard"]["DashboardBody"]);
    let mut body: Value =
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}:\n{body}"));
    serde_json::from_value(body["widgets"].take()).unwrap()
}

#[test]
fn the_dashboard_draws_what_exists() {
    for template in [whole(), following()] {
        let mut drawn = 0;
        for widget in widgets(template)
            .iter()
            .filter(|widget| widget["type"] == "metric")
        {
            let properties = &widget["properties"];
            let metrics = properties["metrics"].as_array().unwrap();
            for metric in metrics {
                match metric[0]["expression"].as_str() {
                    None => Series::drawn(metric).exists(template),
                    Some(search) if search.starts_with("SEARCH") => {
                        let kinds = format!(
                            "SEARCH('{{\"{NAMESPACE}\",Function,Kind}} MetricName=\"StoreFailures\"', 'Sum', 60)"
                        );
                        assert_eq!(search, kinds);
                    }
                    Some(expression) if insight(template, expression) => {}
                    Some(expression) => {
                        let ids: BTreeSet<_> = metrics
                            .iter()
                            .filter_map(|one| one[4]["id"].as_str())
                            .collect();
                        assert!(variables(expression).is_subset(&ids), "{expression}");
                    }
                }
                drawn += 1;
            }
        }
        assert!(drawn > 50, "{drawn}");
    }
}

#[test]
fn the_dashboard_shows_every_alarm() {
    for template in [whole(), following()] {
        let widgets = widgets(template);
        let shown = widgets
            .iter()
            .find(|widget| widget["type"] == "alarm")
            .unwrap();
        let shown = shown["properties"]["alarms"].as_array().unwrap().iter();
        let shown: BTreeSet<_> = shown
            .map(|arn| text(arn).strip_suffix(".Arn").unwrap().to_owned())
            .collect();
        let composites = of_type(template, "AWS::CloudWatch::CompositeAlarm");
        let all = alarms(template).into_keys().chain(composites.into_keys());
        assert_eq!(shown, all.map(str::to_owned).collect());
    }
}

#[test]
fn every_widget_is_of_a_region_and_another_one_is_shown_where_it_is_named() {
    let regions = |template| {
        let widgets = widgets(template);
        let graphs = widgets.iter().filter(|widget| widget["type"] != "alarm");
        graphs
            .map(|widget| text(&widget["properties"]["region"]))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        regions(whole()),
        BTreeSet::from(["AWS::Region".to_owned(), "eu-west-1".to_owned()])
    );
    assert_eq!(
        regions(following()),
        BTreeSet::from(["AWS::Region".to_owned()])
    );
}

#[test]
fn no_two_widgets_are_in_one_place() {
    let number = |widget: &Value, name: &str| widget[name].as_u64().unwrap();
    let mut taken = BTreeSet::new();
    for widget in widgets(whole()) {
        let (x, y) = (number(&widget, "x"), number(&widget, "y"));
        for column in x..x + number(&widget, "width") {
            assert!(column < 24);
            for row in y..y + number(&widget, "height") {
                assert!(taken.insert((column, row)), "{widget}");
            }
        }
    }
}

/// What a Contributor Insights rule makes of a log line: the contributor and what it adds, where the line is one of its.
fn contribution(rule: &Value, line: &Value) -> Option<(Value, u64)> {
    let field = |path: &Value| line.get(text(path).strip_prefix("$.").unwrap());
    let contribution = &rule["Contribution"];
    let matches = |filter: &Value| {
        let found = field(&filter["Match"]);
        match filter.get("In") {
            Some(words) => found.is_some_and(|word| words.as_array().unwrap().contains(word)),
            None => found.is_some() == filter["IsPresent"].as_bool().unwrap(),
        }
    };
    if !contribution["Filters"]
        .as_array()
        .unwrap()
        .iter()
        .all(matches)
    {
        return None;
    }
    let [key] = contribution["Keys"].as_array().unwrap().as_slice() else {
        panic!("{rule}");
    };
    Some((
        field(key).unwrap().clone(),
        field(&contribution["ValueOf"]).unwrap().as_u64().unwrap(),
    ))
}

/// Lines that a container of `check` has written of calls that were let through and denied.
async fn lines() -> Vec<Value> {
    let operator = Operator::new().await;
    for service in ["billing", "orders"] {
        operator.client(service, json!({})).await;
    }
    let once =
        json!({"client": "billing", "resource": "orders", "limit": 1, "time_window": 86_400});
    operator.rule(once).await;
    let variables = [
        ("CHECK_ANONYMOUS", "allow"),
        ("METRICS_INTERVAL_SECONDS", "0"),
    ];
    let check = operator.container(Function::Check, &variables).await;
    let mut question = event("POST", "/throttleRequest", "", None);
    let body = json!({"SourceService": "billing", "DestinationService": "orders"});
    question["body"] = body.to_string().into();
    for status in [200, 429] {
        assert_eq!(send(&check, &question).await.status, status);
    }
    check.logged("RuleThrottled").await;
    let logs = check.logs();
    logs.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn contributor_insights_reads_what_containers_write() {
    let template = whole();
    let lines = lines().await;
    let contributors = |id: &str| {
        let rule = &of_type(template, "AWS::CloudWatch::InsightRule")[id];
        let body: Value = serde_json::from_str(&text(&rule["RuleBody"])).unwrap();
        let schema = json!({"Name": "CloudWatchLogRule", "Version": 1});
        assert_eq!(body["Schema"], schema, "{id}");
        assert_eq!(
            (&body["LogFormat"], &body["AggregateOn"]),
            (&json!("JSON"), &json!("Sum"))
        );
        let groups = of_type(template, "AWS::Logs::LogGroup");
        for group in body["LogGroupNames"].as_array().unwrap() {
            assert!(groups.contains_key(text(group).as_str()), "{id}: {group}");
        }
        let found = lines.iter().filter_map(|line| contribution(&body, line));
        found.collect::<Vec<_>>()
    };
    assert_eq!(contributors("ThrottledClients"), [(json!("billing"), 1)]);
    assert_eq!(contributors("ThrottledServices"), [(json!("orders"), 1)]);
    let [(rule, 1)] = &contributors("HottestRules")[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(rule.as_str().unwrap().len(), 36);
}

#[test]
fn the_queries_that_the_runbook_names_are_saved() {
    let (_, rest) = RUNBOOK.split_once("| query | finds |").unwrap();
    let table = rest.split_once("\n\n").unwrap().0;
    let named: BTreeSet<_> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| format!("AWS::StackName/{name}"))
        .collect();
    assert!(!named.is_empty());
    for template in [whole(), following()] {
        let saved = of_type(template, "AWS::Logs::QueryDefinition");
        let names = saved.values().map(|query| text(&query["Name"]));
        assert_eq!(names.collect::<BTreeSet<_>>(), named);
        let groups = of_type(template, "AWS::Logs::LogGroup");
        for (id, query) in saved {
            for group in query["LogGroupNames"].as_array().unwrap() {
                assert!(groups.contains_key(text(group).as_str()), "{id}: {group}");
            }
        }
    }
}

#[test]
fn the_canary_may_ask_and_write_its_log_and_no_more() {
    let template = whole();
    let roles = of_type(template, "AWS::IAM::Role");
    let own = roles["CanaryRole"]["Policies"].as_array().unwrap().iter();
    let asks = &of_type(template, "AWS::IAM::RolePolicy")["CanaryAsks"];
    assert_eq!(text(&asks["RoleName"]), "CanaryRole");
    assert_eq!(roles["CanaryRole"].get("ManagedPolicyArns"), None);
    let documents = own.chain([*asks]).map(|policy| &policy["PolicyDocument"]);
    let allowed: BTreeSet<_> = documents
        .flat_map(|document| document["Statement"].as_array().unwrap())
        .map(|statement| {
            (
                statement["Action"].to_string(),
                text(&statement["Resource"]),
            )
        })
        .collect();
    let expected = [
        (r#""lambda:InvokeFunction""#, "CheckFunction.Arn"),
        (r#""lambda:InvokeFunctionUrl""#, "CheckFunction.Arn"),
        (
            r#"["logs:CreateLogStream","logs:PutLogEvents"]"#,
            "CanaryLogs.Arn",
        ),
    ];
    let expected = expected.map(|(action, resource)| (action.to_owned(), resource.to_owned()));
    assert_eq!(allowed, BTreeSet::from(expected));
    let canary = &of_type(template, "AWS::Lambda::Function")["CanaryFunction"];
    assert_eq!(text(&canary["Role"]), "CanaryRole.Arn");
    // It is outside the network, and holds no password.
    assert_eq!(canary.get("VpcConfig"), None);
    let variables = &canary["Environment"]["Variables"];
    assert_eq!(
        text(&variables["CHECK_URL"]),
        "CheckFunctionUrl.FunctionUrl"
    );
    assert_eq!(variables.get("REDIS_URL"), None);
}
