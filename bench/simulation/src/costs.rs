//! What everything costs: measured, and assumed.

use serde::Deserialize;

/// Nanoseconds, which all times of the simulation are in.
pub(crate) type Ns = u64;
/// A microsecond.
pub(crate) const US: Ns = 1_000;
/// A millisecond.
pub(crate) const MS: Ns = 1_000 * US;
/// A second.
pub(crate) const S: Ns = 1_000 * MS;

/// What was measured, each by the row of the results that is named: the median of its rounds.
#[derive(Debug, Clone)]
pub(crate) struct Costs {
    /// The machine that it was measured on.
    pub(crate) machine: String,
    /// Of Redis's core: a take of one bucket. `take.lua, one core of Redis` / `token bucket ×1, allowed`, at saturation.
    pub(crate) take_one: Ns,
    /// The same of two buckets: `… ×2, allowed`.
    pub(crate) take_two: Ns,
    /// The same of four: `… ×4, allowed`.
    pub(crate) take_four: Ns,
    /// Of Redis's core: a script that writes nothing, be it a denial (which is what was measured: `token bucket ×1, denied`), a look,
    /// being told that the rules are old, or a look-up of who somebody is.
    pub(crate) unwritten: Ns,
    /// Of a container: a call, with what the emulator of Lambda and Redis did of it on the same core. `authorizer, work` /
    /// `authorizer, allowed`.
    pub(crate) authorizer: Ns,
    /// Of a container: from the start of its process to the first answer. `cold start` / `authorizer, to the first answer`.
    pub(crate) start: Ns,
    /// Of a container: loading all rules. `rules` / `100,000 rules, cold load`.
    pub(crate) load: Ns,
    /// Of a container: `rules` / `100,000 rules, catching up by one change`.
    pub(crate) catch_up: Ns,
}

/// Why the measurements could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CostsError {
    /// They are not of the form that the benchmark writes.
    #[error("not the results of the benchmark: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A row is not there, or has no values in its unit.
    #[error("no values in {unit} in the row `{section}` / `{name}`")]
    Missing {
        section: &'static str,
        name: &'static str,
        unit: &'static str,
    },
}

#[derive(Deserialize)]
struct Results {
    machine: String,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    section: String,
    name: String,
    unit: String,
    values: Vec<f64>,
}

impl Results {
    /// The median of a row, which must be more than nothing.
    fn median(
        &self,
        section: &'static str,
        name: &'static str,
        unit: &'static str,
    ) -> Result<f64, CostsError> {
        let named = |row: &&Row| row.section == section && row.name == name && row.unit == unit;
        let row = self.rows.iter().find(named);
        let mut values = row.map_or(Vec::new(), |row| row.values.clone());
        values.sort_by(f64::total_cmp);
        let median = values.get(values.len() / 2).copied();
        median
            .filter(|value| value.is_finite() && *value > 0.0)
            .ok_or(CostsError::Missing {
                section,
                name,
                unit,
            })
    }
}

impl Costs {
    /// Reads them from the results of the benchmark.
    ///
    /// # Errors
    /// Where that is none, or a row is not among them.
    pub(crate) fn read(json: &str) -> Result<Self, CostsError> {
        let results: Results = serde_json::from_str(json)?;
        let time = |section, name, unit, of: Ns| {
            let value = results.median(section, name, unit)?;
            Ok::<_, CostsError>((value * of as f64) as Ns)
        };
        let take = |name| {
            let thousands = results.median("take.lua, one core of Redis", name, "thousand/s")?;
            Ok::<_, CostsError>((MS as f64 / thousands) as Ns)
        };
        Ok(Self {
            take_one: take("token bucket ×1, allowed")?,
            take_two: take("token bucket ×2, allowed")?,
            take_four: take("token bucket ×4, allowed")?,
            unwritten: take("token bucket ×1, denied")?,
            authorizer: time("authorizer, work", "authorizer, allowed", "µs", US)?,
            start: time("cold start", "authorizer, to the first answer", "ms", MS)?,
            load: time("rules", "100,000 rules, cold load", "ms", MS)?,
            catch_up: time(
                "rules",
                "100,000 rules, catching up by one change",
                "ms",
                MS,
            )?,
            machine: results.machine,
        })
    }
}

/// What is assumed, as nobody has measured it in AWS, and what Weir and Lambda are set to.
#[derive(Debug, Clone)]
pub(crate) struct Assumptions {
    /// A round trip between a container and a Redis server in its zone, and one in another: half of the servers are in each.
    pub(crate) round_trip: [Ns; 2],
    /// What comes to that on average, exponentially distributed.
    pub(crate) jitter: Ns,
    /// How long Lambda keeps a container for each call beyond the handler's own time. Others must wait for it, the caller need not.
    pub(crate) handing_over: Ns,
    /// How many containers are warm, by how many were ever busy at once while it warmed up: Lambda keeps them for minutes.
    pub(crate) warm: f64,
    /// How long Lambda takes to make an environment, before the process starts. A call for which one is made takes what becomes
    /// free first.
    pub(crate) environment: Ns,
    /// How many environments a function may get at once, and what is added to that each second: AWS, *Lambda scaling behavior*.
    pub(crate) environments: [f64; 2],
    /// How many calls a second Lambda admits for each unit of concurrency: the same page. The quota is what the rate needs by this.
    pub(crate) calls_a_unit: f64,
    /// A new connection, of Redis's core: a TLS handshake with an ECDSA certificate, tried with Redis 7.0.
    pub(crate) handshake: Ns,
    /// How many round trips pass before a new connection can be asked: TCP, TLS, login.
    pub(crate) handshake_trips: u64,
    /// A page of rules, of Redis's core; tried with Redis 7.0: 9 µs of processor time for 24 KB.
    pub(crate) page: Ns,
    /// What the rules published after a reader's number cost Redis's core; tried with Redis 7.0 and 4,096 chunks.
    pub(crate) changes: Ns,
    /// How large a published rule is, in bytes, and how large an empty place in a page.
    pub(crate) rule_bytes: [f64; 2],
    /// How large any other reply is, in bytes.
    pub(crate) reply_bytes: u64,
    /// What a Redis server sends in a second, in bytes: 12.5 Gbit/s, of which AWS gives a cache.m7g.large a tenth for long.
    pub(crate) server_bytes: u64,
    /// How many shards one cache may have, as `CacheShards` in the template.
    pub(crate) most_shards: usize,
    /// How many connections a Redis server takes, as AWS has it.
    pub(crate) most_connections: usize,
    /// How popular the n-th client is: n to the power of minus this. Web requests were found between 0.64 and 0.83.
    pub(crate) zipf: f64,
    /// How many names a container remembers, as in `limiter`.
    pub(crate) most_names: f64,
    /// `REDIS_TIMEOUT_MS`.
    pub(crate) redis_timeout: Ns,
    /// `RULES_LOAD_TIMEOUT_MS`.
    pub(crate) load_timeout: Ns,
    /// The first and the longest pause after a server did not answer, as in `limits-redis`.
    pub(crate) pauses: [Ns; 2],
    /// How long a denial is repeated at most, as in `limiter`.
    pub(crate) denial_lasts: Ns,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            round_trip: [300 * US, MS],
            jitter: 100 * US,
            handing_over: MS,
            warm: 1.5,
            environment: 150 * MS,
            environments: [1_000.0, 100.0],
            calls_a_unit: 10.0,
            handshake: 370 * US,
            handshake_trips: 3,
            page: 9 * US,
            changes: 20 * US,
            rule_bytes: [100.0, 5.0],
            reply_bytes: 500,
            server_bytes: 1_560_000_000,
            most_shards: 90,
            most_connections: 65_000,
            zipf: 0.7,
            most_names: 10_000.0,
            redis_timeout: 50 * MS,
            load_timeout: 2 * S,
            pauses: [100 * MS, 5 * S],
            denial_lasts: S,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE_UP: &str = include_str!("../tests/performance.json");

    #[test]
    fn a_throughput_is_read_as_the_time_of_one() {
        let costs = Costs::read(MADE_UP).unwrap();
        assert_eq!((costs.take_one, costs.unwritten), (7_692, 5_882));
        assert_eq!((costs.authorizer, costs.catch_up), (60 * US, 300 * US));
    }

    #[test]
    fn a_row_that_is_missing_is_named() {
        for (was, is) in [
            ("×2, allowed", "×3, allowed"),
            ("[90]", "[]"),
            ("[90]", "[0]"),
        ] {
            let error = Costs::read(&MADE_UP.replace(was, is)).unwrap_err();
            let told = "no values in thousand/s in the row `take.lua, one core of Redis` / `token bucket ×2, allowed`";
            assert_eq!(error.to_string(), told);
        }
        let error = Costs::read(&MADE_UP.replace("\"ms\"", "\"µs\"")).unwrap_err();
        assert!(error.to_string().contains("to the first answer"), "{error}");
    }
}
