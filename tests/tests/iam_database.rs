//! A database that one logs in to by IAM: what stands before a real one, takes nothing but TLS, and believes a token only while
//! it is fresh and signed for it. The rest of a conversation goes through as it is.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws::rds_token::RdsToken;
use aws::signer::Signer;
use local::servers::Certificate;
use tests::certificates;
use time::{PrimitiveDateTime, format_description};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_postgres::Config;

const ASKS_FOR_TLS: u32 = 80_877_103;
const CLEARTEXT: u32 = 3;

/// Listens on a port of its own. Dropping it closes the port.
pub(crate) struct IamDatabase {
    port: u16,
    logins: Arc<Mutex<Vec<Login>>>,
    server: JoinHandle<()>,
}

/// Somebody who tried to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) believed: bool,
}

impl IamDatabase {
    /// Before the database of a URL, with a certificate for `localhost`, or without TLS.
    pub(crate) async fn start(
        url: &str,
        signer: Signer,
        certificate: Option<&Certificate>,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let logins = Arc::<Mutex<Vec<Login>>>::default();
        let door = Arc::new(Door {
            behind: url.parse().unwrap(),
            signer,
            port,
            acceptor: certificate.map(certificates::acceptor),
            logins: Arc::clone(&logins),
        });
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let door = Arc::clone(&door);
                // Whoever leaves in the middle is no matter here.
                tokio::spawn(async move { door.meet(stream).await });
            }
        });
        Self {
            port,
            logins,
            server,
        }
    }

    /// `postgres://…` of it for a user, without a password.
    pub(crate) fn url(&self, user: &str) -> String {
        format!("postgres://{user}@localhost:{}/behind", self.port)
    }

    pub(crate) fn logins(&self) -> Vec<Login> {
        self.logins.lock().unwrap().clone()
    }
}

impl Drop for IamDatabase {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Door {
    behind: Config,
    signer: Signer,
    port: u16,
    acceptor: Option<tokio_rustls::TlsAcceptor>,
    logins: Arc<Mutex<Vec<Login>>>,
}

impl Door {
    async fn meet(&self, mut stream: TcpStream) -> io::Result<()> {
        let asked = message(&mut stream).await?;
        assert_eq!(asked, ASKS_FOR_TLS.to_be_bytes(), "nothing goes in plain");
        let Some(acceptor) = &self.acceptor else {
            stream.write_all(b"N").await?;
            // Nothing should come after this; what does is a login.
            let started = message(&mut stream).await?;
            self.note(user(&started), String::new(), false);
            return Ok(());
        };
        stream.write_all(b"S").await?;
        let mut stream = acceptor.accept(stream).await?;
        let started = message(&mut stream).await?;
        stream
            .write_all(&answer(b'R', &CLEARTEXT.to_be_bytes()))
            .await?;
        assert_eq!(stream.read_u8().await?, b'p');
        let password = message(&mut stream).await?;
        let password = String::from_utf8(password[..password.len() - 1].to_vec()).unwrap();
        let user = user(&started);
        let believed = self.believes(&user, &password).await;
        self.note(user, password, believed);
        if !believed {
            let no = b"SFATAL\0C28P01\0MPAM authentication failed\0\0";
            stream.write_all(&answer(b'E', no)).await?;
            return stream.shutdown().await;
        }
        let mut behind = self.log_in().await?;
        copy_bidirectional(&mut stream, &mut behind).await?;
        Ok(())
    }

    fn note(&self, user: String, password: String, believed: bool) {
        self.logins.lock().unwrap().push(Login {
            user,
            password,
            believed,
        });
    }

    /// The token for that moment, which is not long ago, is this one.
    async fn believes(&self, user: &str, token: &str) -> bool {
        let Some((_, date)) = token.split_once("X-Amz-Date=") else {
            return false;
        };
        let format =
            format_description::parse_borrowed::<2>("[year][month][day]T[hour][minute][second]Z")
                .unwrap();
        let Ok(moment) = PrimitiveDateTime::parse(&date[..16], &format) else {
            return false;
        };
        let moment = SystemTime::from(moment.assume_utc());
        let fresh = SystemTime::now()
            .duration_since(moment)
            .is_ok_and(|age| age < Duration::from_secs(900));
        let right = RdsToken::new("localhost", self.port, user, self.signer.clone()).unwrap();
        fresh && right.mint(moment).await.unwrap() == token
    }

    /// A connection to the database behind, by the password that one has.
    async fn log_in(&self) -> io::Result<TcpStream> {
        let port = self.behind.get_ports()[0];
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let text = |text: Option<&str>| text.unwrap().as_bytes().to_vec();
        let mut start = 196_608_u32.to_be_bytes().to_vec();
        for (name, value) in [
            ("user", text(self.behind.get_user())),
            ("database", text(self.behind.get_dbname())),
            ("application_name", b"weir".to_vec()),
        ] {
            start.extend(name.as_bytes());
            start.push(0);
            start.extend(value);
            start.push(0);
        }
        start.push(0);
        stream.write_all(&sized(&start)).await?;
        assert_eq!(stream.read_u8().await?, b'R');
        assert_eq!(message(&mut stream).await?, CLEARTEXT.to_be_bytes());
        let mut password = self.behind.get_password().unwrap().to_vec();
        password.push(0);
        stream.write_all(&answer(b'p', &password)).await?;
        Ok(stream)
    }
}

/// What follows a length.
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = usize::try_from(stream.read_u32().await?).unwrap();
    let mut body = vec![0; length.checked_sub(4).unwrap()];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

fn sized(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&length.to_be_bytes(), body].concat()
}

fn answer(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], sized(body).as_slice()].concat()
}

/// Who a startup message is from.
fn user(started: &[u8]) -> String {
    let parts: Vec<&[u8]> = started[4..].split(|byte| *byte == 0).collect();
    let named = parts.chunks(2).find(|pair| pair[0] == b"user");
    String::from_utf8(named.unwrap()[1].to_vec()).unwrap()
}
