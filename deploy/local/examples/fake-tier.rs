//! A tier that can do nothing but be ready: what `triptych up` is tested against where a real tier could not be made to
//! misbehave. `--die` ends it at once, `--hang` keeps it from becoming ready.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--build-id"] {
        let build = std::env::var("FAKE_BUILD_ID").unwrap_or(triptych_options::build_id!());
        println!("{build}");
        return Ok(());
    }
    let flag = |name: &str| {
        let prefix = format!("--{name}=");
        arguments
            .iter()
            .find_map(|argument| argument.strip_prefix(&prefix))
            .ok_or(format!("--{name} is missing"))
    };
    println!("fake tier {}", arguments.join(" "));
    if arguments.contains(&"--die".to_owned()) {
        eprintln!("the store is on fire");
        std::process::exit(3);
    }
    let address = format!("{}:{}", flag("bind-address")?, flag("secure-port")?);
    let listener = TcpListener::bind(&address)?;
    std::fs::write(flag("address-file")?, format!("{address}\n"))?;
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            CertificateDer::pem_file_iter(flag("tls-cert-file")?)?.collect::<Result<_, _>>()?,
            PrivateKeyDer::from_pem_file(flag("tls-private-key-file")?)?,
        )?;
    let config = Arc::new(config);
    let status = if arguments.contains(&"--hang".to_owned()) {
        "500 Internal Server Error"
    } else {
        "200 OK"
    };
    for stream in listener.incoming() {
        let (stream, config) = (stream?, config.clone());
        std::thread::spawn(move || serve(stream, config, status));
    }
    Ok(())
}

fn serve(stream: std::net::TcpStream, config: Arc<rustls::ServerConfig>, status: &str) -> Result<(), Failure> {
    let mut tls = rustls::StreamOwned::new(rustls::ServerConnection::new(config)?, stream);
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = tls.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..n]);
        if request.ends_with(b"\r\n\r\n") {
            write!(tls, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok")?;
            tls.flush()?;
            request.clear();
        }
    }
}
