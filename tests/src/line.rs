//! A network between a function and a store, and what becomes of networks.

use std::{io, net::Ipv4Addr, time::Duration};

use local::servers::free_port;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{Mutex, mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A port of the loopback behind which a server's is. Any number of connections, all of which share one fate. Dropping it resets
/// them.
pub struct Line {
    port: u16,
    server: u16,
    way: watch::Sender<Way>,
    end: Mutex<End>,
}

/// How it goes for what is sent.
#[derive(Clone, Default)]
struct Way {
    silent: bool,
    delay: Duration,
    /// Connections that began before the last of these are reset.
    cuts: u64,
    /// Connections that began before the last of these pass nothing any more.
    losses: u64,
}

/// What callers meet.
enum End {
    Listening(JoinHandle<()>),
    /// So many connections wait that the system drops what knocks.
    Full {
        _listener: TcpListener,
        _waiting: Vec<TcpStream>,
    },
    Closed,
}

impl Line {
    /// To a server on the loopback.
    pub async fn to(server: u16) -> Self {
        let line = Self {
            port: free_port().unwrap_or_else(|error| panic!("{error}")),
            server,
            way: watch::Sender::new(Way::default()),
            end: Mutex::new(End::Closed),
        };
        line.restore().await;
        line
    }

    /// Where it is called.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A server's URL, by this way.
    pub fn through(&self, url: &str) -> String {
        let address = |port: u16| format!("127.0.0.1:{port}");
        let through = url.replace(&address(self.server), &address(self.port));
        assert_ne!(through, url, "another server than {}", self.server);
        through
    }

    /// From now on nothing passes, and nobody is told: connections stay open, and new ones come to nothing. What is under way
    /// arrives when the network is back, where somebody still waits for it.
    pub async fn silence(&self) {
        self.way.send_modify(|way| way.silent = true);
        let mut end = self.end.lock().await;
        close(&mut end).await;
        let listener = self.listen(1);
        let mut waiting = Vec::new();
        // The system answers for a listener that accepts nobody, until its queue is full.
        let patience = Duration::from_millis(50);
        while let Ok(connection) = timeout(patience, self.call()).await {
            waiting.push(connection.unwrap());
        }
        *end = End::Full {
            _listener: listener,
            _waiting: waiting,
        };
    }

    /// From now on nobody can connect, and connections are reset: a machine that is up, and no server on it.
    pub async fn refuse(&self) {
        close(&mut *self.end.lock().await).await;
        self.cut();
    }

    /// Resets all connections. New ones are as good as before.
    pub fn cut(&self) {
        self.way.send_modify(|way| way.cuts += 1);
    }

    /// Forgets all connections, as a table of addresses does in between: they stay open and pass nothing ever again. New ones
    /// are as good as before.
    pub fn lose(&self) {
        self.way.send_modify(|way| way.losses += 1);
    }

    /// From now on, what the server sends arrives so much later.
    pub fn delay(&self, delay: Duration) {
        self.way.send_modify(|way| way.delay = delay);
    }

    /// From now on everything passes, at once.
    pub async fn restore(&self) {
        let mut end = self.end.lock().await;
        close(&mut end).await;
        self.way.send_modify(|way| {
            way.silent = false;
            way.delay = Duration::ZERO;
        });
        let listener = self.listen(BACKLOG);
        let (server, way) = (self.server, self.way.subscribe());
        *end = End::Listening(tokio::spawn(async move {
            loop {
                // One that is gone before it is accepted is no matter.
                if let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(carry(client, server, way.clone()));
                }
            }
        }));
    }

    fn listen(&self, backlog: u32) -> TcpListener {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        let bound = socket.bind((Ipv4Addr::LOCALHOST, self.port).into());
        bound.unwrap_or_else(|error| panic!("port {}: {error}", self.port));
        socket.listen(backlog).unwrap()
    }

    async fn call(&self) -> io::Result<TcpStream> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let End::Listening(accepting) = self.end.get_mut() {
            accepting.abort();
        }
    }
}

/// The port is free when this is over.
async fn close(end: &mut End) {
    if let End::Listening(accepting) = std::mem::replace(end, End::Closed) {
        accepting.abort();
        let _ = accepting.await;
    }
}

async fn carry(mut client: TcpStream, server: u16, mut way: watch::Receiver<Way>) {
    let born = way.borrow_and_update().clone();
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await;
    let Ok(mut server) = server else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let both_closed = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let asked = pass(from_client, to_server, way.clone(), born.losses, false);
        let answered = pass(from_server, to_client, way.clone(), born.losses, true);
        tokio::select! {
            // Also when the line is no more.
            _ = way.wait_for(|now| now.cuts > born.cuts) => false,
            ended = async { tokio::try_join!(asked, answered) } => ended.is_ok(),
        }
    };
    if !both_closed {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Passes on what is sent one way, until that way is closed.
async fn pass(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    way: watch::Receiver<Way>,
    losses: u64,
    delayed: bool,
) -> io::Result<()> {
    let (queue, mut queued) = mpsc::channel::<(Instant, io::Result<Vec<u8>>)>(64);
    let mut other = way.clone();
    let take = async move {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut buffer).await;
            let piece = read.map(|count| buffer[..count].to_vec());
            let last = !piece.as_ref().is_ok_and(|bytes| !bytes.is_empty());
            let delay = way.borrow().delay;
            let due = Instant::now() + if delayed { delay } else { Duration::ZERO };
            if queue.send((due, piece)).await.is_err() || last {
                break;
            }
        }
        drop(queue);
        std::future::pending().await
    };
    let give = async move {
        // How it ended is news too, and passes like all others.
        while let Some((due, piece)) = queued.recv().await {
            sleep_until(due).await;
            let open = |now: &Way| !now.silent && now.losses == losses;
            if other.wait_for(open).await.is_err() {
                break;
            }
            to.write_all(&piece?).await?;
        }
        to.shutdown().await
    };
    tokio::select! {
        ended = give => ended,
        never = take => never,
    }
}
