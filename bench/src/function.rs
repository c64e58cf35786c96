//! A function's real binary behind a Runtime API that does as little as it can: what it takes is mostly the function's.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The binary of a function, as it is deployed.
pub fn binary(name: &str) -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let path = folder.join("release").join(name);
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// An event, as the Runtime API hands it out.
pub struct Event(Vec<u8>);

impl Event {
    /// Of a payload.
    pub fn new(payload: &Value) -> Self {
        let body = payload.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nlambda-runtime-aws-request-id: 00000000-0000-4000-8000-000000000001\r\n\
             lambda-runtime-deadline-ms: 4000000000000\r\n\
             lambda-runtime-invoked-function-arn: arn:aws:lambda:us-east-1:000000000000:function:bench\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Self([head.into_bytes(), body.into_bytes()].concat())
    }
}

/// A container: one process of a function, which waits for its next event. Dropping it ends the process.
pub struct Function {
    process: Child,
    started: Instant,
    connections: Receiver<Connection>,
    runtime: Option<Connection>,
}

impl Function {
    /// Starts a program with these variables beside Lambda's own.
    pub fn start(program: &mut Command, variables: &[(&str, String)]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (sender, connections) = channel();
        thread::spawn(move || accept(&listener, &sender));
        let own = own_variables(address);
        program
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(own)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = Instant::now();
        let process = program.spawn().expect("the program can be run");
        Self {
            process,
            started,
            connections,
            runtime: None,
        }
    }

    /// Waits until the function asks for its first event: how long that took since its start.
    pub fn ready(&mut self) -> Duration {
        if self.runtime.is_none() {
            let connection = self.connections.recv_timeout(PATIENCE);
            self.runtime = Some(connection.expect("the function asks for an event"));
        }
        self.started.elapsed()
    }

    /// How long ago the process was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the process has ended.
    pub fn ended(&mut self) {
        self.process.wait().expect("it is a child of ours");
    }

    /// Hands out an event and waits for the answer: how long that took, and the answer. Then waits until the function asks for the
    /// next.
    pub fn invoke(&mut self, event: &Event) -> (Duration, &[u8]) {
        self.ready();
        let runtime = self.runtime.as_mut().expect("it has just asked");
        let started = Instant::now();
        runtime.write(&event.0);
        let answered = runtime.read();
        let took = started.elapsed();
        assert!(
            runtime.path().ends_with("/response"),
            "{} {}",
            runtime.path(),
            String::from_utf8_lossy(runtime.body(answered))
        );
        let answer = runtime.body(answered).to_vec();
        runtime.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
        runtime.read();
        runtime.answer = answer;
        (took, &runtime.answer)
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn own_variables(address: SocketAddr) -> [(&'static str, String); 7] {
    [
        ("AWS_LAMBDA_RUNTIME_API", address.to_string()),
        ("AWS_LAMBDA_FUNCTION_NAME", "bench".to_owned()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512".to_owned()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/bench".to_owned()),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "bench".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ]
}

/// Whoever asks for an event first is the runtime, and goes to whoever invokes; an extension is registered and never told anything.
fn accept(listener: &TcpListener, runtimes: &Sender<Connection>) {
    while let Ok((stream, _)) = listener.accept() {
        let runtimes = runtimes.clone();
        thread::spawn(move || {
            let mut connection = Connection::new(stream);
            loop {
                if connection.try_read().is_none() {
                    return;
                }
                if connection.path().ends_with("/invocation/next") {
                    let _ = runtimes.send(connection);
                    return;
                }
                if connection.path().ends_with("/extension/register") {
                    let function = r#"{"functionName":"bench","functionVersion":"$LATEST","handler":"bootstrap"}"#;
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nlambda-extension-identifier: bench\r\ncontent-length: {}\r\n\r\n{function}",
                        function.len()
                    );
                    connection.write(head.as_bytes());
                }
            }
        });
    }
}

/// A connection of HTTP/1.1, on which one request comes after the other.
struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// How many of them the last request took.
    taken: usize,
    path: String,
    answer: Vec<u8>,
}

/// Where a request's body is among the bytes.
#[derive(Clone, Copy)]
struct Body {
    from: usize,
    to: usize,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a socket can be set");
        Self {
            stream,
            bytes: Vec::new(),
            taken: 0,
            path: String::new(),
            answer: Vec::new(),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the function listens");
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn body(&self, body: Body) -> &[u8] {
        &self.bytes[body.from..body.to]
    }

    fn read(&mut self) -> Body {
        let timeout = Some(PATIENCE);
        // What waits for its first event may wait for long, and is not read meanwhile.
        self.stream
            .set_read_timeout(timeout)
            .expect("it is no zero");
        self.try_read().expect("the function lives and answers")
    }

    /// The next request; none where there will be none.
    fn try_read(&mut self) -> Option<Body> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        loop {
            if let Some(body) = self.whole() {
                return Some(body);
            }
            let had = self.bytes.len();
            self.bytes.resize(had + 16 * 1024, 0);
            let read = self.stream.read(&mut self.bytes[had..]).ok()?;
            self.bytes.truncate(had + read);
            if read == 0 {
                return None;
            }
        }
    }

    /// The request at the beginning of the bytes, if all of it is there.
    fn whole(&mut self) -> Option<Body> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(&self.bytes).expect("what comes is HTTP");
        let httparse::Status::Complete(from) = parsed else {
            return None;
        };
        let length = request
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case("content-length"));
        let length = length.map_or(0, |header| {
            let text = std::str::from_utf8(header.value).expect("a length is a number");
            text.parse().expect("a length is a number")
        });
        let body = Body {
            from,
            to: from + length,
        };
        if self.bytes.len() < body.to {
            return None;
        }
        self.path.clear();
        self.path.push_str(request.path.unwrap_or_default());
        self.taken = body.to;
        Some(body)
    }
}
