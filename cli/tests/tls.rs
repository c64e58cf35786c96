//! An API over TLS.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::support::{Folder, python, weir};

/// A server over TLS that says who it is, and no.
const SERVER: &str = r#"
import http.server, ssl, sys

class No(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(403)
        body = b'{"message": "over TLS"}'
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *told):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), No)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(certificate: &str, key: &str) -> Self {
        let mut child = python(&["-c", SERVER, certificate, key])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        let url = format!("https://localhost:{}", port.trim());
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn only_a_server_with_a_certificate_that_is_trusted_is_asked() {
    let folder = Folder::new();
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let trusted = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&key, &issuer).unwrap().pem();
    let server = Server::start(
        &folder.file("certificate.pem", &own),
        &folder.file("key.pem", &key.serialize_pem()),
    );

    let export = ["rules", "export"];
    let trusted = folder.file("trusted.pem", &trusted);
    let told = weir(&server.url, &export)
        .env("SSL_CERT_FILE", &trusted)
        .run()
        .error();
    assert!(told.contains("403 Forbidden: over TLS"), "{told}");
    let address = server.url.replace("localhost", "127.0.0.1");
    let told = weir(&address, &export)
        .env("SSL_CERT_FILE", &trusted)
        .run()
        .error();
    assert!(
        told.contains("cannot be reached: invalid peer certificate"),
        "{told}"
    );
    let told = weir(&server.url, &export).run().error();
    assert!(
        told.contains("cannot be reached: invalid peer certificate"),
        "{told}"
    );
}
