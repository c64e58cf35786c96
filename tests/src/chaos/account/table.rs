//! An account, to be read.

use std::fmt;

use super::Account;
use crate::chaos::faults::Happened;

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.length.as_secs_f64();
        writeln!(
            formatter,
            "{}: {seconds:.0} s, {} containers, {} requests",
            self.topology,
            self.containers,
            self.all.count()
        )?;
        writeln!(
            formatter,
            "\n{:<24}{:>7}{:>9}{:>9}{:>10}{:>10}{:>6}{:>6}{:>8}{:>6}{:>9}",
            "",
            "at",
            "lasted",
            "back in",
            "allowed",
            "throttled",
            "deg.",
            "401",
            "503",
            "slow",
            "longest"
        )?;
        for (happened, tally) in &self.faults {
            let Happened {
                fault,
                began,
                lifted,
                recovered,
                ..
            } = happened;
            let lasted = (*lifted - *began).as_secs_f64();
            let back = match recovered {
                Some(took) => format!("{:.2} s", took.as_secs_f64()),
                None => "never".to_owned(),
            };
            let at = began.as_secs_f64();
            write!(formatter, "{fault:<24}{at:>5.1} s{lasted:>7.2} s{back:>9}")?;
            writeln!(formatter, "{tally}")?;
        }
        writeln!(
            formatter,
            "{:<49}{}",
            "while nothing was wrong", self.undisturbed
        )?;
        writeln!(formatter, "{:<49}{}", "in all", self.all)?;
        writeln!(
            formatter,
            "\n{:<16}{:>7}{:>9}{:>10}{:>9}{:>9}{:>9}{:>7}{:>10}{:>11}",
            "rule",
            "calls",
            "buckets",
            "admitted",
            "fullest",
            "counted",
            "by rule",
            "lost",
            "fallback",
            "allowance"
        )?;
        for bucket in &self.buckets {
            writeln!(
                formatter,
                "{:<16}{:>7}{:>9}{:>10}{:>9}{:>9}{:>9}{:>7}{:>10}{:>11}",
                bucket.rule.name,
                bucket.calls,
                bucket.buckets,
                bucket.admitted_by_all,
                bucket.admitted,
                bucket.counted,
                bucket.by_rule,
                bucket.by_loss,
                bucket.by_fallback,
                bucket.allowance()
            )?;
        }
        writeln!(
            formatter,
            "\n{} edits written, {} not; {} runs of the schedule; {} keys taken away, refused {} times; in the end {} rules in {} \
             looks",
            self.written,
            self.unwritten,
            self.runs,
            self.revoked,
            self.refused,
            self.rules,
            self.looks
        )?;
        match self.wrong.as_slice() {
            [] => writeln!(formatter, "nothing is wrong"),
            wrong => wrong
                .iter()
                .try_for_each(|sentence| writeln!(formatter, "WRONG: {sentence}")),
        }
    }
}
