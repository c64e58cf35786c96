//! From what was counted to lines of the embedded metric format.

use std::time::SystemTime;

use metrique_writer::core::config::AllowSplitEntries;
use metrique_writer::core::format::Format;
use metrique_writer::{Entry, EntryWriter, MetricFlags, Observation, Unit, Value, ValueWriter};
use metrique_writer_format_emf::Emf;

use super::list::{Function, LIST, Metric, Record};
use super::{RULE_ALLOWED, RULE_THROTTLED, rules};

/// What writes the lines of one function.
pub(super) struct Emission {
    emf: Emf,
    function: Function,
    by_rule: bool,
}

impl std::fmt::Debug for Emission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emission").finish_non_exhaustive()
    }
}

/// What one flush tells of one metric, under one set of dimensions.
struct Told<'a> {
    name: &'static str,
    unit: Unit,
    /// Beside the function.
    dimension: Option<(&'static str, &'a str)>,
    observations: Vec<Observation>,
}

impl<'a> Told<'a> {
    fn of(metric: &Metric, observations: Vec<Observation>) -> Self {
        Self {
            name: metric.name,
            unit: metric.unit,
            dimension: None,
            observations,
        }
    }

    fn under(self, name: &'static str, value: &'a str) -> Self {
        Self {
            dimension: Some((name, value)),
            ..self
        }
    }
}

impl Value for Told<'_> {
    fn write(&self, writer: impl ValueWriter) {
        let observations = self.observations.iter().copied();
        writer.metric(
            observations,
            self.unit,
            self.dimension,
            MetricFlags::empty(),
        );
    }
}

/// What goes into one line, and into one more for each further set of dimensions.
struct Line<'a> {
    function: Function,
    now: SystemTime,
    /// A rule that it is about, where that is no dimension.
    rule: Option<&'a str>,
    told: Vec<Told<'a>>,
}

impl Entry for Line<'_> {
    fn write<'a>(&'a self, writer: &mut impl EntryWriter<'a>) {
        writer.config(&const { AllowSplitEntries::new() });
        writer.timestamp(self.now);
        writer.value("Function", self.function.as_str());
        if let Some(rule) = self.rule {
            writer.value("Rule", rule);
        }
        for told in &self.told {
            writer.value(told.name, told);
        }
    }
}

impl Emission {
    pub(super) fn new(namespace: String, function: Function, by_rule: bool) -> Self {
        let dimensions = vec![vec!["Function".to_owned()]];
        Self {
            emf: Emf::builder(namespace, dimensions).build(),
            function,
            by_rule,
        }
    }

    /// The lines of what was counted since the last time; none where that is nothing.
    pub(super) fn lines(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        let now = SystemTime::now();
        let (mut told, mut gauges) = (Vec::new(), Vec::new());
        let one = |n| vec![Observation::Unsigned(n)];
        for metric in LIST {
            match &metric.record {
                Record::Counter(counter) => {
                    let n = counter.drain();
                    told.extend((n > 0).then(|| Told::of(metric, one(n))));
                }
                Record::StoreFailures(failures) => {
                    let each: Vec<_> = failures.drain().collect();
                    if !each.is_empty() {
                        let all = each.iter().map(|(_, n)| n).sum();
                        told.push(Told::of(metric, one(all)));
                    }
                    let each = each.into_iter();
                    told.extend(
                        each.map(|(kind, n)| Told::of(metric, one(n)).under("Kind", kind.as_str())),
                    );
                }
                Record::Distribution(distribution) => {
                    let observations = distribution.drain();
                    told.extend((!observations.is_empty()).then(|| Told::of(metric, observations)));
                }
                Record::Gauge(gauge) => {
                    gauges.extend(gauge.read().map(|n| Told::of(metric, one(n))));
                }
                // Lines of their own follow.
                Record::RuleCounter(_) => {}
            }
        }
        if !told.is_empty() {
            told.extend(gauges);
            self.write(now, None, told, &mut lines);
        }
        for counts in rules::drain(&RULE_ALLOWED, &RULE_THROTTLED) {
            let both = LIST.iter().filter_map(|metric| match metric.record {
                Record::RuleCounter(counter) if std::ptr::eq(counter, &RULE_ALLOWED) => {
                    Some((metric, counts.allowed))
                }
                Record::RuleCounter(_) => Some((metric, counts.throttled)),
                _ => None,
            });
            let both = both.filter(|(_, n)| *n > 0);
            let both = both.map(|(metric, n)| Told::of(metric, one(n)));
            if self.by_rule {
                let both = both.map(|told| told.under("Rule", &counts.rule));
                self.write(now, None, both.collect(), &mut lines);
            } else {
                self.write(now, Some(&counts.rule), both.collect(), &mut lines);
            }
        }
        lines
    }

    fn write(
        &mut self,
        now: SystemTime,
        rule: Option<&str>,
        told: Vec<Told<'_>>,
        lines: &mut Vec<u8>,
    ) {
        let line = Line {
            function: self.function,
            now,
            rule,
            told,
        };
        if let Err(error) = self.emf.format(&line, lines) {
            tracing::error!(%error, "metrics could not be put into lines");
        }
    }
}
