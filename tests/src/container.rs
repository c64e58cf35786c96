//! One container of one function: a process of the real binary, as Lambda would run it.

use std::{
    fmt, fs,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use local::servers::{Child, End, temporary_folder};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Function,
    runtime_api::{Outcome, RuntimeApi},
};

/// Longer than anything here should take on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What Lambda tells the caller of a function that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionError {
    /// What alarms read. `Sandbox.Timedout` and `Runtime.ExitError` are Lambda's own.
    pub error_type: String,
    /// What people, and API Gateway, read.
    pub error_message: String,
}

impl FunctionError {
    pub(crate) fn read(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Self {
            error_type: text("errorType"),
            error_message: text("errorMessage"),
        }
    }
}

impl fmt::Display for FunctionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.error_type, self.error_message)
    }
}

/// A running container. It has no variables but Lambda's and those that it was started with. Dropping it kills it.
pub struct Container {
    api: RuntimeApi,
    child: Mutex<Child>,
    folder: PathBuf,
}

impl Container {
    /// Starts the process, and does not wait for it: a cold start is part of the first invocation.
    pub async fn start(
        function: Function,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        Self::start_beside(RuntimeApi::start(true).await, function, variables)
    }

    /// The same where Lambda never answers that the container is to be told of its end.
    pub async fn start_untold(
        function: Function,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        Self::start_beside(RuntimeApi::start(false).await, function, variables)
    }

    fn start_beside(
        api: RuntimeApi,
        function: Function,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = function.name();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = function.path();
        let folder = temporary_folder(name).unwrap();
        let variables = [
            ("AWS_LAMBDA_RUNTIME_API", api.address().to_string()),
            ("AWS_LAMBDA_FUNCTION_NAME", name.to_owned()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256".to_owned()),
            ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
            ("AWS_LAMBDA_LOG_STREAM_NAME", number.to_string()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .chain(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        let child = Child::start(&folder, End::Kill, &path, [], variables).unwrap();
        Self {
            api,
            child: Mutex::new(child),
            folder,
        }
    }

    /// Waits until the function has asked for its first event.
    pub async fn ready(&self) -> Result<(), FunctionError> {
        let started = timeout(PATIENCE, self.started()).await;
        started.unwrap_or_else(|_| Err(timed_out(PATIENCE)))
    }

    /// Invokes the function and waits for its answer.
    pub async fn invoke(&self, event: &Value) -> Outcome {
        self.invoke_within(event, PATIENCE).await
    }

    /// The same with the function's timeout. As Lambda does, a container that is over time is killed.
    pub async fn invoke_within(&self, event: &Value, deadline: Duration) -> Outcome {
        self.ask(event.to_string(), deadline).await
    }

    /// Invokes the function with a text of one's own, JSON or not.
    pub async fn invoke_text(&self, event: &str) -> Outcome {
        self.ask(event.to_owned(), PATIENCE).await
    }

    async fn ask(&self, payload: String, deadline: Duration) -> Outcome {
        let answer = self.api.send(payload, deadline);
        let answered = async {
            tokio::select! {
                biased;
                outcome = answer => outcome.unwrap(),
                error = self.failure() => Err(error),
            }
        };
        match timeout(deadline, answered).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.kill();
                Err(timed_out(deadline))
            }
        }
    }

    /// Freezes the container, as Lambda does between two invocations: no code runs and no timer fires.
    pub fn freeze(&self) {
        self.child.lock().unwrap().pause();
    }

    /// Lets a frozen container go on.
    pub fn thaw(&self) {
        self.child.lock().unwrap().resume();
    }

    /// Ends the process as Lambda does with one that it does not need any more: by SIGTERM where it registered to be told, and
    /// waits until it is gone. Lambda would not wait for longer than half a second.
    pub fn shut_down(&self) {
        match self.api.tells_of_the_end() {
            true => self.child.lock().unwrap().end(End::Terminate),
            false => self.kill(),
        }
    }

    /// Kills the process, as Lambda does with one that is over time.
    pub fn kill(&self) {
        self.child.lock().unwrap().end(End::Kill);
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        self.child.lock().unwrap().ended().is_none()
    }

    /// How much memory the process holds, in KiB.
    pub fn resident_kib(&self) -> u64 {
        let pid = self.child.lock().unwrap().pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        kib.unwrap().parse().unwrap()
    }

    /// All that the function has written to its log so far.
    pub fn logs(&self) -> String {
        self.child.lock().unwrap().log()
    }

    /// Waits until the log holds the text.
    pub async fn logged(&self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.logs().contains(text) {
            assert!(Instant::now() < end, "no {text:?} in:\n{}", self.logs());
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn started(&self) -> Result<(), FunctionError> {
        tokio::select! {
            biased;
            start = self.api.started() => start,
            error = self.exit() => Err(error),
        }
    }

    /// Ends when the function did not start, or is no more.
    async fn failure(&self) -> FunctionError {
        match self.started().await {
            Ok(()) => self.exit().await,
            Err(error) => error,
        }
    }

    async fn exit(&self) -> FunctionError {
        loop {
            let ended = self.child.lock().unwrap().ended();
            if let Some(status) = ended {
                return FunctionError {
                    error_type: "Runtime.ExitError".to_owned(),
                    error_message: format!("the runtime ended with {status}:\n{}", self.logs()),
                };
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            child.end(End::Kill);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn timed_out(deadline: Duration) -> FunctionError {
    FunctionError {
        error_type: "Sandbox.Timedout".to_owned(),
        error_message: format!("Task timed out after {:.2} seconds", deadline.as_secs_f64()),
    }
}
