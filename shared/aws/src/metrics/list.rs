//! The list of all metrics: their one home.

use metrique_writer::Unit;
use metrique_writer::unit::NegativeScale;

use super::record::{Counter, Distribution, Gauge, StoreFailures};
use super::rules::RuleCounter;

/// Who emits metrics: the value of the dimension `Function`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The authorizer.
    Authorizer,
    /// The check API.
    Check,
    /// The control API's rules.
    Rules,
    /// The control API's clients.
    Clients,
    /// What publishes.
    Refresh,
    /// What migrates the schema.
    Migrate,
    /// What tries the whole of it on a schedule.
    Canary,
}

impl Function {
    /// The name of its binary.
    pub fn as_str(self) -> &'static str {
        match self {
            Function::Authorizer => "authorizer",
            Function::Check => "check",
            Function::Rules => "rules",
            Function::Clients => "clients",
            Function::Refresh => "refresh",
            Function::Migrate => "migrate",
            Function::Canary => "canary",
        }
    }

    pub(super) fn decides(self) -> bool {
        DECIDING.contains(&self)
    }
}

/// A metric: what it is called, counted in, and means.
#[derive(Debug)]
pub struct Metric {
    /// Its name in CloudWatch.
    pub name: &'static str,
    /// What its numbers are in.
    pub unit: Unit,
    /// What it tells, in a sentence.
    pub meaning: &'static str,
    /// The functions that emit it.
    pub functions: &'static [Function],
    pub(super) record: Record,
}

/// Where a metric is added up.
#[derive(Debug)]
pub(super) enum Record {
    Counter(&'static Counter),
    Gauge(&'static Gauge),
    Distribution(&'static Distribution),
    StoreFailures(&'static StoreFailures),
    RuleCounter(&'static RuleCounter),
}

const COUNT: Unit = Unit::Count;
const MICROSECONDS: Unit = Unit::Second(NegativeScale::Micro);
const MILLISECONDS: Unit = Unit::Second(NegativeScale::Milli);
const NONE: Unit = Unit::None;

const EVERY: &[Function] = &[
    Function::Authorizer,
    Function::Check,
    Function::Rules,
    Function::Clients,
    Function::Refresh,
    Function::Migrate,
    Function::Canary,
];
const DECIDING: &[Function] = &[Function::Authorizer, Function::Check];
/// Who speaks to Redis.
const ASKING: &[Function] = &[
    Function::Authorizer,
    Function::Check,
    Function::Rules,
    Function::Refresh,
];
/// Who decides, and who tells operators what would be decided.
const READING: &[Function] = &[Function::Authorizer, Function::Check, Function::Rules];
const CONTROL: &[Function] = &[Function::Rules, Function::Clients];

macro_rules! list {
    ($($name:ident: $record:ident = $called:literal, $unit:ident, $functions:expr, $meaning:literal;)+) => {
        $(
            #[doc = $meaning]
            pub static $name: $record = $record::new();
        )+

        /// Every metric there is.
        pub static LIST: &[Metric] = &[$(Metric {
            name: $called,
            unit: $unit,
            meaning: $meaning,
            functions: $functions,
            record: Record::$record(&$name),
        }),+];
    };
}

list! {
    DECISIONS: Counter = "Decisions", COUNT, DECIDING, "Calls that were answered, whatever the answer: the sum of the four that follow. Looks that count nothing are not among them.";
    ALLOWED: Counter = "Allowed", COUNT, DECIDING, "Calls that were let through.";
    THROTTLED: Counter = "Throttled", COUNT, DECIDING, "Calls that were denied by a rule, or by the default limit.";
    REFUSED: Counter = "Refused", COUNT, DECIDING, "Calls of callers who are unknown, terminated, wrong about who they are, or may not ask: 401 and 403.";
    STORE_OUT: Counter = "StoreOut", COUNT, DECIDING, "Calls that could not be judged while Redis was out: 503.";
    DEGRADED_DECISIONS: Counter = "DegradedDecisions", COUNT, DECIDING, "Calls that were judged without Redis, or by rules that may be old.";
    FALLBACK_ALLOWED: Counter = "FallbackAllowed", COUNT, DECIDING, "Calls that a container let through by its own small buckets while Redis was out.";
    FALLBACK_THROTTLED: Counter = "FallbackThrottled", COUNT, DECIDING, "Calls that a container denied by its own small buckets while Redis was out.";
    FAILED_OPEN: Counter = "FailedOpen", COUNT, DECIDING, "Calls that were let through uncounted while Redis was out, since their rules say `allow`.";
    STALE_DECISIONS: Counter = "StaleDecisions", COUNT, DECIDING, "Calls that were judged by rules that were known to be old.";
    DENY_CACHE_HITS: Counter = "DenyCacheHits", COUNT, DECIDING, "Denials that a container repeated within a second, without asking Redis.";
    SHADOW_DENIALS: Counter = "ShadowDenials", COUNT, DECIDING, "Shadow rules that would have denied a call.";
    CROWDED_CALLS: Counter = "CrowdedCalls", COUNT, DECIDING, "Calls that met more than 32 rules.";
    ANONYMOUS_LIMITED: Counter = "AnonymousLimited", COUNT, &[Function::Authorizer], "Calls that were refused without a look-up, since their address had failed to identify itself too often.";
    STORE_FAILURES: StoreFailures = "StoreFailures", COUNT, ASKING, "Things that Redis was asked and did not do; by the dimension `Kind` too.";
    BREAKER_OPENED: Counter = "BreakerOpened", COUNT, ASKING, "Redis servers that stopped answering and were left alone from then on.";
    DECISION_LATENCY: Distribution = "DecisionLatency", MICROSECONDS, DECIDING, "How long a decision took, loading and catching up with rules included.";
    REDIS_LATENCY: Distribution = "RedisLatency", MICROSECONDS, ASKING, "How long one round trip to a Redis server took that answered; making a connection included.";
    EPOCH_IN_FORCE: Gauge = "EpochInForce", MILLISECONDS, READING, "When the rules that a container decides by were published, in milliseconds since 1970.";
    REVISION_IN_FORCE: Gauge = "RevisionInForce", NONE, READING, "The revision of the rules that a container decides by.";
    CATCH_UPS: Counter = "CatchUps", COUNT, READING, "How often a container loaded rules, or what had changed in them.";
    CATCH_UP_LATENCY: Distribution = "CatchUpLatency", MILLISECONDS, READING, "How long that took.";
    CACHE_EVICTIONS: Counter = "CacheEvictions", COUNT, READING, "Entries that a container dropped for lack of room: of callers, denials or its own buckets.";
    RULE_ALLOWED: RuleCounter = "RuleAllowed", COUNT, DECIDING, "Calls that were let through and counted by a rule, which the property `Rule` names: the busiest of each flush, and all others together.";
    RULE_THROTTLED: RuleCounter = "RuleThrottled", COUNT, DECIDING, "Calls that a rule denied, likewise.";
    COLD_STARTS: Counter = "ColdStarts", COUNT, EVERY, "Containers that began.";
    COLD_START_LATENCY: Distribution = "ColdStartLatency", MILLISECONDS, EVERY, "How long a container took from its first instruction until it was ready for a call.";
    REFRESH_RUNS: Counter = "RefreshRuns", COUNT, &[Function::Refresh], "Runs that published what Postgres holds, or found nothing to publish.";
    REFRESH_FAILURES: Counter = "RefreshFailures", COUNT, &[Function::Refresh], "Runs that failed.";
    REFRESH_LATENCY: Distribution = "RefreshLatency", MILLISECONDS, &[Function::Refresh], "How long a run took.";
    REFRESH_LAG: Distribution = "RefreshLag", MILLISECONDS, &[Function::Refresh], "How long the oldest change of a run had waited, from its commit until it was published.";
    REVISION_IN_DATABASE: Gauge = "RevisionInDatabase", NONE, &[Function::Refresh], "The revision that Postgres holds.";
    REVISION_PUBLISHED: Gauge = "RevisionPublished", NONE, &[Function::Refresh], "The revision that is published in Redis.";
    CHUNKS_WRITTEN: Counter = "ChunksWritten", COUNT, &[Function::Refresh], "Chunks of rules that were published.";
    ENTRIES_WRITTEN: Counter = "EntriesWritten", COUNT, &[Function::Refresh], "Entries of the registry that were published.";
    LANES_MOVED: Counter = "LanesMoved", COUNT, &[Function::Refresh], "Lanes whose epoch was moved.";
    LANES_REBUILT: Counter = "LanesRebuilt", COUNT, &[Function::Refresh], "Lanes that had lost their data and were written again.";
    REBUILDS: Counter = "Rebuilds", COUNT, &[Function::Refresh], "How often all was published anew, as a new history.";
    CACHE_HEALTHY: Gauge = "CacheHealthy", NONE, &[Function::Refresh], "1 where ElastiCache is available, else 0.";
    DATABASE_HEALTHY: Gauge = "DatabaseHealthy", NONE, &[Function::Refresh], "1 where the database is available, else 0.";
    CACHE_NODES_UNAVAILABLE: Gauge = "CacheNodesUnavailable", COUNT, &[Function::Refresh], "Nodes of the cache that are not available.";
    DATABASE_REPLICA_LAG: Gauge = "DatabaseReplicaLag", MILLISECONDS, &[Function::Refresh], "How far the database that is read is behind its primary.";
    FAILOVERS: Counter = "Failovers", COUNT, &[Function::Refresh], "Changes of a primary, of the cache or of the database, that were seen.";
    EVICTIONS: Counter = "Evictions", COUNT, &[Function::Refresh], "Keys that Redis evicted for lack of memory since the last look.";
    HEALTH_UNKNOWN: Counter = "HealthUnknown", COUNT, &[Function::Refresh], "Looks at the health of a store that AWS gave no answer to.";
    WRITES: Counter = "Writes", COUNT, CONTROL, "Requests that changed rules or clients.";
    PENDING_ANNOUNCEMENTS: Counter = "PendingAnnouncements", COUNT, CONTROL, "Changes that could not be announced, so that the schedule publishes them.";
    MIGRATION_FAILURES: Counter = "MigrationFailures", COUNT, &[Function::Migrate], "Migrations that failed, or that CloudFormation was not told of.";
    CANARY_SUCCEEDED: Counter = "CanarySucceeded", COUNT, &[Function::Canary], "Trials of the canary in which limits held.";
    CANARY_FAILED: Counter = "CanaryFailed", COUNT, &[Function::Canary], "Trials in which they did not, or nobody said so.";
    CANARY_LATENCY: Distribution = "CanaryLatency", MILLISECONDS, &[Function::Canary], "How long a trial took.";
}
