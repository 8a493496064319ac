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
use url::Url;

/// Bytes of a part of a large object: the fewest that S3 takes, and all of the same length.
pub const PART_BYTES: usize = 5 << 20;

/// Longest time until a server takes a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Part of an object that is being made.
#[derive(Debug)]
pub enum ObjectPart {
    /// The next [`PART_BYTES`], which others follow.
    Part(Bytes),
    /// The last bytes. An object without them was not made whole, and is not put.
    Last(Bytes),
}

/// Upload of an object, part by part: it is there whole, or not at all.
#[derive(Debug)]
pub struct Upload<'a> {
    target: &'a Target,
    path: Path,
    /// URL of the object, for people.
    shown: String,
    /// Parts that are in the store already, where there are some.
    parts: Option<Box<dyn MultipartUpload>>,
    bytes: u64,
}

/// Store, and where in it.
#[derive(Debug)]
pub struct Target {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    /// URL without what follows the prefix, for links.
    shown: String,
    /// Words about its credentials for where something fails; empty where there are none.
    hint: String,
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

/// Stores, the beginning of the variables that are for each, and one that names credentials.
const OF_ENVIRONMENT: [(&[&str], &str, &str); 3] = [
    (&["s3", "s3a"], "AWS_", "AWS_ACCESS_KEY_ID"),
    (&["gs"], "GOOGLE_", "GOOGLE_APPLICATION_CREDENTIALS"),
    (
        &["az", "adl", "abfs", "abfss"],
        "AZURE_",
        "AZURE_STORAGE_ACCOUNT_KEY",
    ),
];

/// Words in the names of variables that are for credentials, or say that none are needed.
const OF_CREDENTIALS: [&str; 8] = [
    "KEY",
    "TOKEN",
    "CREDENTIALS",
    "SERVICE_ACCOUNT",
    "CLIENT",
    "SAS",
    "SKIP_SIGNATURE",
    "EMULATOR",
];

/// Returns what to know of the credentials of a store, of which the environment has these
/// variables: where none names some, the store's library asks the machine for them, and what it
/// says then leads nowhere on a machine that is not the store's own.
fn hint(scheme: &str, variables: impl IntoIterator<Item = String>) -> String {
    let of_scheme = |of: &&(&[&str], &str, &str)| of.0.contains(&scheme);
    let Some((_, beginning, example)) = OF_ENVIRONMENT.iter().find(of_scheme) else {
        return String::new();
    };
    let is_for_credentials = |name: String| {
        let name = name.to_ascii_uppercase();
        let rest = name.strip_prefix(beginning);
        rest.is_some_and(|rest| OF_CREDENTIALS.iter().any(|word| rest.contains(word)))
    };
    if variables.into_iter().any(is_for_credentials) {
        return String::new();
    }
    format!(" with credentials of this machine, since no variable names others (such as {example})")
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
        let variables = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        let variables = variables.filter_map(|(name, _)| name.into_string().ok());
        Ok(Self {
            store,
            hint: hint(url.scheme(), variables),
            prefix: Path::from_url_path(&prefix).with_context(cannot)?,
            shown: typed.trim_end_matches('/').to_owned(),
        })
    }

    /// Returns the URL of an object.
    pub fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.shown)
    }

    /// Asks the store for an object, to find out whether it answers before tables are made for it.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or cannot answer now.
    pub async fn ask(&self) -> anyhow::Result<()> {
        match self.store.head(&self.prefix.clone().join("ship")).await {
            Err(error @ object_store::Error::Generic { .. }) => {
                Err(error).with_context(|| format!("cannot reach {}{}", self.shown, self.hint))
            }
            // There is none, or it may not be seen: both are answers.
            _ => Ok(()),
        }
    }

    /// Begins to put an object under a name below the prefix. Nothing is asked of the store yet.
    pub fn upload(&self, name: &str) -> Upload<'_> {
        let mut path = self.prefix.clone();
        for part in name.split('/') {
            path = path.join(part);
        }
        Upload {
            target: self,
            path,
            shown: self.url_of(name),
            parts: None,
            bytes: 0,
        }
    }

    /// Puts an object under a name below the prefix.
    ///
    /// # Errors
    ///
    /// The store does not take it, or has something else there afterwards.
    pub async fn put(&self, name: &str, bytes: Bytes) -> anyhow::Result<()> {
        self.upload(name).put(ObjectPart::Last(bytes)).await
    }
}

impl Upload<'_> {
    /// Puts the next part. With the last one, the object is there. After an error it is to be given
    /// up.
    ///
    /// # Errors
    ///
    /// The store does not take it, or has something else there afterwards.
    pub async fn put(&mut self, part: ObjectPart) -> anyhow::Result<()> {
        let put = self.put_part(part).await;
        let is_there =
            put.with_context(|| format!("cannot put {}{}", self.shown, self.target.hint))?;
        if is_there {
            self.find_again().await?;
        }
        Ok(())
    }

    /// Removes the parts that are in the store, or else it keeps them. Where it cannot be reached,
    /// it does.
    pub async fn give_up(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            let _ = parts.abort().await;
        }
    }

    /// Puts a part, and tells whether the object is there.
    async fn put_part(&mut self, part: ObjectPart) -> anyhow::Result<bool> {
        let (bytes, is_last) = match part {
            ObjectPart::Part(bytes) => (bytes, false),
            ObjectPart::Last(bytes) => (bytes, true),
        };
        let store = &self.target.store;
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.parts.is_none() && is_last {
            store.put(&self.path, bytes.into()).await?;
            return Ok(true);
        }
        let parts = match self.parts.take() {
            Some(parts) => parts,
            None => store.put_multipart(&self.path).await?,
        };
        let parts = self.parts.insert(parts);
        if !bytes.is_empty() {
            parts.put_part(bytes.into()).await?;
        }
        if is_last {
            parts.complete().await?;
            self.parts = None;
        }
        Ok(is_last)
    }

    /// Asks for the object, since something between may say yes to everything.
    async fn find_again(&self) -> anyhow::Result<()> {
        let found = self.target.store.head(&self.path).await;
        let found = found.with_context(|| format!("cannot find again {}", self.shown))?;
        ensure!(
            found.size == self.bytes,
            "{} has {} bytes after {} were put there; is it a server of {} that answers?",
            self.shown,
            found.size,
            self.bytes,
            self.target.shown
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_no_credentials_is_told_so() {
        let hint = |scheme, names: &[&str]| hint(scheme, names.iter().map(|&name| name.to_owned()));
        for (scheme, name) in [
            ("s3", "AWS_ACCESS_KEY_ID"),
            ("gs", "GOOGLE_APPLICATION_CREDENTIALS"),
            ("az", "AZURE_STORAGE_ACCOUNT_KEY"),
        ] {
            assert!(hint(scheme, &["PATH", "AWS_REGION"]).contains(name));
            assert_eq!(hint(scheme, &["PATH", name]), "");
        }
        assert_eq!(hint("gs", &["google_bearer_token"]), "");
        assert!(!hint("gs", &["AWS_ACCESS_KEY_ID"]).is_empty());
        assert_eq!(hint("file", &[]), "");
    }
}
