//! Object stores: where a URL leads, and putting an object there.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{ClientConfigKey, HttpClient, HttpConnector};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, MultipartUpload, ObjectStore, ObjectStoreExt as _, RetryConfig,
};
use tokio::sync::mpsc::Receiver;
use url::Url;

/// Bytes of a part of a large object: the fewest that S3 takes, and all of the same length.
pub const PART_BYTES: usize = 5 << 20;

/// Longest time until a server takes a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Part of an object that is being made.
#[derive(Debug)]
pub enum ObjectPart {
    /// The next bytes: [`PART_BYTES`] of them, or the last ones.
    Bytes(Bytes),
    /// All is there. An object without this end was not made whole, and is not put.
    End,
}

/// Store, and where in it.
#[derive(Debug)]
pub struct Target {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    /// URL without what follows the prefix, for links.
    shown: String,
}

/// Maker of connections to servers: they follow no server to another one with what they carry.
#[derive(Debug)]
struct Connector {
    timeout: Duration,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let is_https_only = allows_http.is_none_or(|value| value != "true");
        let client = client(self.timeout, is_https_only);
        client
            .map(HttpClient::new)
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP client",
                source: error.into(),
            })
    }
}

/// Returns a client of servers.
///
/// # Errors
///
/// TLS cannot be set up.
pub fn client(timeout: Duration, is_https_only: bool) -> anyhow::Result<reqwest::Client> {
    reqwest::Client::builder()
        .user_agent(concat!("tracer-user/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT.min(timeout))
        .timeout(timeout)
        .pool_idle_timeout(Duration::from_secs(20))
        .redirect(reqwest::redirect::Policy::none())
        .https_only(is_https_only)
        .build()
        .context("cannot set up TLS; is there a file of certificates (package ca-certificates)?")
}

impl Target {
    /// Finds the store of a URL. Nothing is asked of it yet.
    ///
    /// # Errors
    ///
    /// The URL or what the environment says of its store makes no sense.
    pub fn open(typed: &str, timeout: Duration) -> anyhow::Result<Self> {
        let url = Url::parse(typed).with_context(|| {
            format!("--to {typed:?} is no URL; give such as s3://bucket/prefix or file:///folder")
        })?;
        ensure!(
            url.query().is_none() && url.fragment().is_none() && url.password().is_none(),
            "--to takes no ?, # or password; credentials are those of the environment"
        );
        // What is tried again, and when, is decided by who knows all that waits.
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 0,
            retry_timeout: timeout,
        };
        let connector = || Connector { timeout };
        let mut prefix = url.path().trim_matches('/').to_owned();
        let cannot = || format!("cannot use --to {typed}");
        let store: Box<dyn ObjectStore> = match url.scheme() {
            "file" => {
                let folder = url
                    .to_file_path()
                    .ok()
                    .with_context(|| format!("--to {typed} names no folder of this host"))?;
                std::fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot make {}", folder.display()))?;
                prefix.clear();
                let store = LocalFileSystem::new_with_prefix(&folder).with_context(cannot)?;
                Box::new(store.with_fsync(true))
            }
            "s3" | "s3a" => Box::new(
                AmazonS3Builder::from_env()
                    .with_url(typed)
                    .with_retry(retry)
                    .with_http_connector(connector())
                    .build()
                    .with_context(cannot)?,
            ),
            "gs" => Box::new(
                GoogleCloudStorageBuilder::from_env()
                    .with_url(typed)
                    .with_retry(retry)
                    .with_http_connector(connector())
                    .build()
                    .with_context(cannot)?,
            ),
            "az" | "adl" | "abfs" | "abfss" => Box::new(
                MicrosoftAzureBuilder::from_env()
                    .with_url(typed)
                    .with_retry(retry)
                    .with_http_connector(connector())
                    .build()
                    .with_context(cannot)?,
            ),
            other => bail!(
                "--to {typed}: there is no store {other}; give s3://…, gs://…, az://… or file:///…"
            ),
        };
        Ok(Self {
            store,
            prefix: Path::from_url_path(&prefix).with_context(cannot)?,
            shown: typed.trim_end_matches('/').to_owned(),
        })
    }

    /// Returns the URL of an object.
    pub fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.shown)
    }

    /// Puts the object whose parts come, under a name below the prefix: whole, or not at all.
    ///
    /// # Errors
    ///
    /// The store does not take it, has something else there afterwards, or the maker has not ended
    /// it.
    pub async fn put(&self, name: &str, parts: &mut Receiver<ObjectPart>) -> anyhow::Result<()> {
        let mut path = self.prefix.clone();
        for part in name.split('/') {
            path = path.join(part);
        }
        let cannot = || format!("cannot put {}", self.url_of(name));
        let put = match parts.recv().await {
            None => return Err(NotWhole.into()),
            Some(ObjectPart::End) => {
                self.store.put(&path, Bytes::new().into()).await?;
                0
            }
            Some(ObjectPart::Bytes(first)) => match parts.recv().await {
                Some(ObjectPart::End) => {
                    let length = first.len();
                    let put = self.store.put(&path, first.into()).await;
                    put.with_context(cannot)?;
                    bytes_of(length)
                }
                Some(ObjectPart::Bytes(second)) => {
                    let upload = self.store.put_multipart(&path).await;
                    let mut upload = upload.with_context(cannot)?;
                    let done = put_parts(upload.as_mut(), [first, second], parts).await;
                    if done.is_err() {
                        // Else the store keeps the parts. Where it cannot be reached, it does.
                        let _ = upload.abort().await;
                    }
                    done.with_context(cannot)?
                }
                None => return Err(NotWhole.into()),
            },
        };
        // Something between may say yes to everything.
        let found = self.store.head(&path).await;
        let found = found.with_context(|| format!("cannot find again {}", self.url_of(name)))?;
        ensure!(
            found.size == put,
            "{} has {} bytes after {put} were put there; is it a server of {} that answers?",
            self.url_of(name),
            found.size,
            self.shown
        );
        Ok(())
    }
}

/// Error where the maker of an object has not ended it.
#[derive(Debug)]
pub struct NotWhole;

impl std::error::Error for NotWhole {}

impl std::fmt::Display for NotWhole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the object was not made whole")
    }
}

async fn put_parts(
    upload: &mut dyn MultipartUpload,
    first: [Bytes; 2],
    parts: &mut Receiver<ObjectPart>,
) -> anyhow::Result<u64> {
    let mut put = 0;
    for part in first {
        put += bytes_of(part.len());
        upload.put_part(part.into()).await?;
    }
    loop {
        match parts.recv().await {
            Some(ObjectPart::Bytes(part)) => {
                put += bytes_of(part.len());
                upload.put_part(part.into()).await?;
            }
            Some(ObjectPart::End) => break,
            None => return Err(NotWhole.into()),
        }
    }
    upload.complete().await?;
    Ok(put)
}

fn bytes_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Returns a channel of parts in which one waits at most.
pub fn parts() -> (tokio::sync::mpsc::Sender<ObjectPart>, Receiver<ObjectPart>) {
    tokio::sync::mpsc::channel(1)
}
