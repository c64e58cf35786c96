//! An issuer of tokens: its keys, what it signs, and where it publishes the keys.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// Who signs, unless a story says otherwise.
pub const ISSUER: &str = "https://issuer.example/";

/// For whom, unless a story says otherwise.
pub const AUDIENCE: &str = "https://api.example/";

/// Of a key that only tests know: ring makes none for RSA.
const RSA: &str = include_str!("issuer/rsa-2048.pem");

/// For 127.0.0.1, by itself, as PEM.
pub const CERTIFICATE: &str = include_str!("issuer/tls-certificate.pem");

const CERTIFICATE_KEY: &str = include_str!("issuer/tls-key.pem");

/// A key of an issuer, with an id.
pub struct SigningKey {
    id: String,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Curve(EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
}

impl SigningKey {
    /// The one key there is for RS256.
    pub fn rs256(id: &str) -> Self {
        let armour = |line: &&str| !line.starts_with("-----");
        let base64: String = RSA.lines().filter(armour).collect();
        let pair = RsaKeyPair::from_pkcs8(&STANDARD.decode(base64).unwrap()).unwrap();
        Self::of(id, Pair::Rsa(pair))
    }

    /// A new key for ES256.
    pub fn es256(id: &str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self::of(id, Pair::Curve(pair))
    }

    /// A new key for `EdDSA`.
    pub fn eddsa(id: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        Self::of(id, Pair::Edwards(pair))
    }

    fn of(id: &str, pair: Pair) -> Self {
        Self {
            id: id.to_owned(),
            pair,
        }
    }

    /// The algorithm, as tokens name it.
    pub fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Curve(_) => "ES256",
            Pair::Edwards(_) => "EdDSA",
        }
    }

    /// The public half as JSON Web Key.
    pub fn public(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": encode(&public.n), "e": encode(&public.e) })
            }
            Pair::Curve(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) })
            }
            Pair::Edwards(pair) => {
                let x = encode(pair.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "x": x })
            }
        };
        key["kid"] = self.id.as_str().into();
        key["use"] = "sig".into();
        key["alg"] = self.algorithm().into();
        key
    }

    /// The header of its tokens.
    pub fn header(&self) -> Value {
        json!({ "typ": "JWT", "alg": self.algorithm(), "kid": self.id })
    }

    /// A token that says this.
    pub fn token(&self, claims: &Value) -> String {
        self.sign(&self.header(), claims)
    }

    /// The same with a header of one's own.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let (header, claims) = (header.to_string(), claims.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let bytes = message.as_bytes();
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature)
                    .unwrap();
                signature
            }
            Pair::Curve(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Pair::Edwards(pair) => pair.sign(bytes).as_ref().to_vec(),
        };
        format!("{message}.{}", encode(signature))
    }
}

/// What a good token of a client says.
pub fn claims(client: &str) -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": client, "exp": from_now(3600) })
}

/// So many seconds from now, as claims have it.
pub fn from_now(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + seconds
}

/// Base64 as tokens have it.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The public halves of keys, as an issuer publishes them.
pub fn key_set(keys: &[&SigningKey]) -> String {
    let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
    json!({ "keys": keys }).to_string()
}

/// How a [`KeyServer`] answers.
#[derive(Debug, Clone)]
pub enum Publication {
    /// With this text.
    Text(String),
    /// With more than anyone should read.
    Endless,
    /// Never.
    Silent,
    /// With an error.
    Broken,
    /// With the way to another place.
    Elsewhere(String),
}

/// Where an issuer publishes its keys, on the loopback.
pub struct KeyServer {
    address: String,
    state: Arc<Mutex<(Publication, usize)>>,
    server: JoinHandle<()>,
}

impl KeyServer {
    /// Publishes.
    pub async fn start(publication: Publication) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/keys", listener.local_addr().unwrap());
        Self::serve(listener, address, publication)
    }

    /// Publishes over TLS, with [`CERTIFICATE`].
    pub async fn start_tls(publication: Publication) -> Self {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(CERTIFICATE_KEY.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}/keys", listener.local_addr().unwrap());
        let tls = Tls {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        Self::serve(tls, address, publication)
    }

    fn serve<L: Listener<Addr: Debug>>(
        listener: L,
        address: String,
        publication: Publication,
    ) -> Self {
        let state = Arc::new(Mutex::new((publication, 0)));
        let shared = Arc::clone(&state);
        let answer = move || answer(Arc::clone(&shared));
        let router = Router::new().route("/keys", get(answer));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self {
            address,
            state,
            server,
        }
    }

    /// Where.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Publishes something else from now on.
    pub fn publish(&self, publication: Publication) {
        self.state.lock().unwrap().0 = publication;
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.state.lock().unwrap().1
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, caller) = self.listener.accept().await.unwrap();
            // Who does not trust the certificate is gone.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, caller);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn answer(state: Arc<Mutex<(Publication, usize)>>) -> Response {
    let publication = {
        let mut state = state.lock().unwrap();
        state.1 += 1;
        state.0.clone()
    };
    match publication {
        Publication::Text(text) => text.into_response(),
        Publication::Endless => Body::from(vec![b' '; 64 << 20]).into_response(),
        Publication::Silent => {
            sleep(Duration::from_secs(3600)).await;
            StatusCode::OK.into_response()
        }
        Publication::Broken => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Publication::Elsewhere(place) => (StatusCode::FOUND, [("location", place)]).into_response(),
    }
}
