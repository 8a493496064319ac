//! Options of `tracer-user ship`, which are also those of the program that it runs.

use std::path::PathBuf;

/// Ship slices of this host's flight recorders to an object store, as tables in Parquet
///
/// A slice is a log that a recorder has completed: a snapshot, or what --when has written. Those
/// that come into the spool folder are taken from it into a queue, and each is shipped as all its
/// tables (docs/tables.md), to TABLE/date=DATE/host=HOST/SLICE.parquet below the URL. DATE is that
/// of the slice's first event, in UTC; SLICE is made of its content: what is shipped twice is there
/// once. The object in the table ship comes last: the slice is all there.
///
/// What cannot be shipped stays in the queue and is tried again, after intervals that grow up to
/// --retry-most. Where the queue gets larger than --queue-bytes, the oldest slices give way; what
/// is dropped is counted by cause, and the counts are shipped as rows of ship.
///
/// Stores: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, file:///FOLDER.
/// Credentials are those of the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
/// AWS_ENDPOINT, …; GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_NAME,
/// AZURE_STORAGE_ACCOUNT_KEY, …; or those that the machine has there. An endpoint without TLS needs
/// AWS_ALLOW_HTTP=true. Headers for --otlp are in OTEL_EXPORTER_OTLP_HEADERS. No rights are needed
/// but to the spool folder, and nothing listens. SIGUSR1 has it look, and try again, at once.
#[derive(Clone, Debug, clap::Args)]
pub struct ShipArgs {
    /// Folder into which recorders put slices. The queue is in it: .queue
    #[arg(long, value_name = "FOLDER")]
    pub spool: PathBuf,
    /// Store, and the prefix of all names there
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Also send each span, with how its time was spent, to this OTLP receiver, as protobuf over
    /// HTTP: http://localhost:4318
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Ship what is there, each slice tried once, and end
    #[arg(long)]
    pub once: bool,
    /// Most bytes of slices that wait to be shipped
    #[arg(long, value_name = "BYTES", default_value = "1G")]
    pub queue_bytes: String,
    /// Name of this host. Without it, that which the kernel has
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Longest interval between attempts
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub retry_most: String,
    /// Longest time that a request may take
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub timeout: String,
}
