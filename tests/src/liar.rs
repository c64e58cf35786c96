//! A server with the manners of Redis that does not always tell the truth.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use redis::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it answers to a command.
#[derive(Debug, Clone)]
pub enum Told {
    /// What the Redis behind it answers.
    Truth,
    /// These bytes.
    Lie(Vec<u8>),
}

type Lies = Arc<dyn Fn(&[String]) -> Told + Send + Sync>;

/// Before a Redis on the loopback, by any of whose addresses it is reached. Dropping it closes all.
pub struct Liar {
    port: u16,
    lies: Arc<Mutex<Lies>>,
    open: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Liar {
    /// Before the Redis at a port; tells the truth at first.
    pub async fn before(redis: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let truth: Lies = Arc::new(|_| Told::Truth);
        let (lies, open) = (Arc::new(Mutex::new(truth)), Arc::new(AtomicUsize::new(0)));
        let (told, counted) = (Arc::clone(&lies), Arc::clone(&open));
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (told, counted) = (Arc::clone(&told), Arc::clone(&counted));
                tokio::spawn(async move {
                    counted.fetch_add(1, Ordering::Relaxed);
                    answer(near, redis, &told).await;
                    counted.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self {
            port,
            lies,
            open,
            accepting,
        }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it answers from now on.
    pub fn tells(&self, lies: impl Fn(&[String]) -> Told + Send + Sync + 'static) {
        *self.lies.lock().unwrap() = Arc::new(lies);
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Answers one connection until it is closed.
async fn answer(mut near: TcpStream, redis: u16, lies: &Mutex<Lies>) {
    let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, redis)).await else {
        return;
    };
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    while let Some(command) = read(&mut near, &mut asked).await {
        let lies = Arc::clone(&lies.lock().unwrap());
        let told = match lies(&words(&command)) {
            Told::Lie(bytes) => Some(bytes),
            Told::Truth if far.write_all(&command).await.is_ok() => {
                read(&mut far, &mut answered).await
            }
            Told::Truth => None,
        };
        let Some(told) = told else { return };
        if near.write_all(&told).await.is_err() {
            return;
        }
    }
}

/// The next whole value; none where there is an end to it.
async fn read(from: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(length) = length(buffer) {
            return Some(buffer.drain(..length).collect());
        }
        if from.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// How long the value is that the bytes begin with; none where it is not all there.
fn length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
    let count = || -> Option<usize> { std::str::from_utf8(&bytes[1..end - 2]).ok()?.parse().ok() };
    match bytes[0] {
        b'$' => {
            let whole = count().map_or(end, |count| end + count + 2);
            (bytes.len() >= whole).then_some(whole)
        }
        b'*' => (0..count().unwrap_or(0)).try_fold(end, |at, _| Some(at + length(&bytes[at..])?)),
        _ => Some(end),
    }
}

fn words(command: &[u8]) -> Vec<String> {
    let Ok(Value::Array(words)) = redis::parse_redis_value(command) else {
        return Vec::new();
    };
    let word = |word| match word {
        Value::BulkString(word) => String::from_utf8_lossy(&word).into_owned(),
        other => panic!("no word: {other:?}"),
    };
    words.into_iter().map(word).collect()
}
