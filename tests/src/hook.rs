//! A webhook of the tests' own: a real TLS server that answers each JSON document posted to it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;

/// What a document is answered with.
pub type Answer = Arc<dyn Fn(Value) -> Value + Send + Sync>;

/// A running webhook; it ends when this is dropped.
#[derive(Debug)]
pub struct Hook {
    /// Where it is.
    pub url: String,
    /// Its certificate as `caBundle` wants it: PEM in base64.
    pub ca_bundle: String,
    serving: AbortHandle,
}

impl Hook {
    /// Begins to answer.
    pub async fn start(answer: Answer) -> io::Result<Hook> {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .map_err(io::Error::other)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://127.0.0.1:{}/hook", listener.local_addr()?.port());
        let serving = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), answer));
        Ok(Hook {
            url,
            ca_bundle: STANDARD.encode(made.cert.pem()),
            serving: serving.abort_handle(),
        })
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answer: Answer) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        tokio::spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            let service = service_fn(|request| answered(request, &answer));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), service);
            // the caller closes it when it likes
            let _ = connection.await;
        });
    }
}

async fn answered(
    request: http::Request<Incoming>,
    answer: &Answer,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let body = request
        .into_body()
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let document = serde_json::from_slice(&body).unwrap_or_default();
    let mut response = http::Response::new(Full::from(Bytes::from(answer(document).to_string())));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}
