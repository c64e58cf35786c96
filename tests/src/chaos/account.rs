//! What came of a run, as a table, and what of it is not as promised.

mod bucket;
mod table;
mod tally;

use std::{collections::BTreeSet, time::Duration};

use bucket::Bucket;
use tally::Tally;

use super::{
    edits::{Edited, Revoked, Run},
    faults::Happened,
    rules::STANDING,
    stage::{LOAD_TIMEOUT, REDIS_TIMEOUT, SCHEDULE, Stage},
    stores::Topology,
    traffic::{Answer, Asked, Verdict},
    truth::Truth,
    wrong::Wrong,
};

/// What a slow and busy machine may add to any promise.
const SLACK: Duration = Duration::from_secs(4);

/// The longest pause in which a container leaves a store alone that has failed.
const BREAKER: Duration = Duration::from_secs(5);

/// For how long an answer may rest on a look at the store.
const LOOK: Duration = Duration::from_secs(1);

/// How many of a hundred undisturbed answers may be degraded, for want of a faster machine.
const DEGRADED_PERCENT: usize = 2;

/// The account of one run.
pub struct Account {
    topology: Topology,
    length: Duration,
    containers: usize,
    all: Tally,
    undisturbed: Tally,
    faults: Vec<(Happened, Tally)>,
    buckets: Vec<Bucket>,
    revoked: usize,
    refused: usize,
    written: usize,
    unwritten: usize,
    runs: usize,
    rules: usize,
    looks: usize,
    wrong: Vec<String>,
}

impl Account {
    pub(super) fn of(
        topology: Topology,
        stage: &Stage,
        answers: Vec<Answer>,
        faults: Vec<Happened>,
        edited: Edited,
        runs: Vec<Run>,
        truth: Truth,
    ) -> Self {
        let felt: Vec<&Happened> = faults
            .iter()
            .filter(|each| each.fault.touches_decisions())
            .collect();
        let mut all = Tally::default();
        let mut undisturbed = Tally::default();
        let mut during = vec![Tally::default(); faults.len()];
        for answer in &answers {
            all.add(answer);
            let covers = |each: &Happened| each.covers(answer.began, answer.ended);
            for (fault, tally) in faults.iter().zip(&mut during) {
                if covers(fault) {
                    tally.add(answer);
                }
            }
            if !felt.iter().any(|each| covers(each)) {
                undisturbed.add(answer);
            }
        }
        let containers = stage.seats.len();
        let buckets = STANDING
            .iter()
            .map(|rule| Bucket::of(rule, stage, &answers, &felt))
            .collect();
        let refused = |answer: &&Answer| {
            matches!(answer.asked, Asked::Leaver(_)) && answer.verdict == Verdict::Unauthorized
        };
        let mut account = Self {
            topology,
            length: stage.length,
            containers,
            all,
            undisturbed,
            faults: faults.iter().cloned().zip(during).collect(),
            buckets,
            revoked: edited.revoked.len(),
            refused: answers.iter().filter(refused).count(),
            written: edited.written,
            unwritten: edited.failed,
            runs: runs.len(),
            rules: truth.rules,
            looks: truth.looks,
            wrong: Vec::new(),
        };
        account.judge(truth.wrong, stage, &answers, &felt, &edited, &runs);
        account
    }

    /// What of it is not as promised, in sentences; the same thing once.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    fn judge(
        &mut self,
        mut wrong: Wrong,
        stage: &Stage,
        answers: &[Answer],
        felt: &[&Happened],
        edited: &Edited,
        runs: &[Run],
    ) {
        let leaving: BTreeSet<usize> = edited
            .revoked
            .iter()
            .map(|each| each.leaver)
            .chain(edited.uncertain.iter().copied())
            .collect();
        for answer in answers {
            let who = stage.seats[answer.seat].name(answer.seat);
            let told = format!(
                "{who} at {:.2} s after {:.2} s on {:?}: {:?}",
                answer.began.as_secs_f64(),
                (answer.ended - answer.began).as_secs_f64(),
                answer.asked,
                answer.verdict
            );
            if let Verdict::Failed(_) = answer.verdict {
                wrong.note("a function failed", &told);
            }
            let refused = answer.verdict == Verdict::Unauthorized;
            match answer.asked {
                Asked::Stranger if answer.verdict.knows_the_caller() => {
                    wrong.note("somebody unknown was let in", &told);
                }
                Asked::Standing { .. } | Asked::Edited { .. } if refused => {
                    wrong.note("somebody known was called unknown", &told);
                }
                Asked::Leaver(number) if refused && !leaving.contains(&number) => {
                    wrong.note("a key that nobody took away was refused", &told);
                }
                Asked::Leaver(number) if answer.verdict.knows_the_caller() => {
                    if let Some((revoked, run)) = revoked(number, answer, felt, edited, runs) {
                        let told = format!("{told}, after {revoked:?} and {run:?}");
                        wrong.note("a key was accepted after it was taken away", &told);
                    }
                }
                Asked::Standing {
                    place: "critical", ..
                } if answer.verdict == Verdict::AllowedDegraded => {
                    wrong.note("a critical path was open without the store", &told);
                }
                _ => {}
            }
        }
        let longest = LOAD_TIMEOUT + REDIS_TIMEOUT * 2 + SLACK;
        if self.all.longest > longest {
            let told = format!("{:?}, and {longest:?} is the most", self.all.longest);
            wrong.note("an answer came too late", &told);
        }
        for (happened, _) in &self.faults {
            // What is lost has to be published again, by a `refresh` that has left the store alone for as long.
            let publishing = match happened.loses {
                true => SCHEDULE + BREAKER,
                false => Duration::ZERO,
            };
            let most = publishing + BREAKER + SLACK;
            if happened.recovered.is_none_or(|took| took > most) {
                let (fault, took) = (happened.fault, happened.recovered);
                let told = format!("{fault}: {took:?}, and {most:?} is the most");
                wrong.note("a fault was over and not all containers were", &told);
            }
        }
        for bucket in &self.buckets {
            let name = bucket.rule.name;
            for (admitted, most) in [
                (bucket.counted, bucket.countable()),
                (bucket.admitted, bucket.allowance()),
            ] {
                if admitted > most {
                    let told = format!("{name}: {admitted}, and {most} is the most");
                    wrong.note("a bucket admitted more than it may", &told);
                }
            }
        }
        let out = self.undisturbed.degraded + self.undisturbed.store_out;
        if out * 100 > self.undisturbed.count() * DEGRADED_PERCENT {
            let told = format!("{out} of {}", self.undisturbed.count());
            wrong.note("answers were degraded while nothing was wrong", &told);
        }
        self.wrong = wrong.told().collect();
    }
}

/// By what that key was surely gone for whoever asks the store: taken away, published after that, and nothing was wrong since.
fn revoked<'a>(
    leaver: usize,
    answer: &Answer,
    felt: &[&Happened],
    edited: &'a Edited,
    runs: &'a [Run],
) -> Option<(&'a Revoked, &'a Run)> {
    let mut revoked = edited.revoked.iter();
    let revoked = revoked.find(|each| each.leaver == leaver)?;
    let mut runs = runs.iter();
    let published = runs.find(|run| {
        run.began >= revoked.at
            && run.revision >= revoked.revision
            && run.ended + LOOK <= answer.began
            && !felt.iter().any(|each| each.covers(run.began, answer.ended))
    });
    published.map(|run| (revoked, run))
}
