//! Spans of a slice as traces of OpenTelemetry: protobuf over HTTP.
//!
//! A span is a part of the trace that its thread worked for, where that was recorded, and else a
//! trace of its own. Its identifiers are made of where and when it was, so that it is the same span
//! however often it is sent, and from whichever slice.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, InstrumentationScope, KeyValue, any_value::Value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::Sender;
use tracer_tables::{BatchColumn, ColumnValues, RowBatch};
use tracer_text::say;
use url::Url;

use crate::queue::QueuedSlice;
use crate::slice;
use crate::store;

/// Receiver of spans.
#[derive(Debug)]
pub struct Receiver {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
}

/// Error of sending the spans of a slice.
#[derive(Debug)]
pub enum SendError {
    /// The slice cannot be read.
    OfSlice(anyhow::Error),
    /// The receiver does not take them now.
    OfReceiver(anyhow::Error),
}

/// Path below the receiver's address.
const PATH: &str = "v1/traces";

/// Variable with headers, as OpenTelemetry names it.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Most bytes of an answer that are looked at.
const MOST_ANSWER: usize = 64 << 10;

const PROTOBUF: &str = "application/x-protobuf";

impl Receiver {
    /// Finds the receiver at an address. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The address or the variable with headers makes no sense.
    pub fn new(typed: &str, timeout: Duration) -> anyhow::Result<Self> {
        let wrong = || {
            format!(
                "--otlp {typed:?} is no address of a receiver; give such as http://localhost:4318"
            )
        };
        let mut url = Url::parse(typed).with_context(wrong)?;
        ensure!(
            matches!(url.scheme(), "http" | "https") && url.has_host(),
            wrong()
        );
        let path = url.path().trim_end_matches('/').to_owned();
        if !path.ends_with(PATH) {
            url.set_path(&format!("{path}/{PATH}"));
        }
        let mut headers = headers(&std::env::var(HEADERS).unwrap_or_default())?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
        let is_https_only = url.scheme() == "https";
        Ok(Self {
            client: store::client(timeout, is_https_only)?,
            url,
            headers,
        })
    }

    /// Sends all spans of a slice, and returns how many the receiver has refused for good. `link`
    /// is what they are said to be a part of.
    ///
    /// # Errors
    ///
    /// The slice cannot be read, or the receiver does not take them now.
    pub async fn send(
        &self,
        log: &Path,
        entry: &QueuedSlice,
        link: &str,
    ) -> Result<u64, SendError> {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let reading = tokio::task::spawn_blocking({
            let (log, entry, link) = (log.to_owned(), entry.clone(), link.to_owned());
            move || read(&log, &entry, &link, &sender)
        });
        let mut refused = 0;
        while let Some(request) = receiver.recv().await {
            let sent = self.send_some(request).await;
            refused += sent.map_err(SendError::OfReceiver)?;
        }
        let read = reading.await.context("the spans cannot be read");
        read.map_err(SendError::OfReceiver)?
            .map_err(SendError::OfSlice)?;
        Ok(refused)
    }

    /// Sends spans, and returns how many of them were refused for good.
    async fn send_some(&self, request: Request) -> anyhow::Result<u64> {
        let cannot = || format!("cannot send spans to {}", self.url);
        let sent = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(request.body)
            .send();
        let mut answer = sent
            .await
            .map_err(reqwest::Error::without_url)
            .with_context(cannot)?;
        let status = answer.status();
        let kind = answer.headers().get(CONTENT_TYPE).cloned();
        let mut body = Vec::new();
        while let Some(some) = answer.chunk().await.with_context(cannot)? {
            body.extend_from_slice(&some);
            ensure!(
                body.len() <= MOST_ANSWER,
                "{}: its answer has no end",
                cannot()
            );
        }
        match status {
            StatusCode::OK => {}
            // These spans are never taken, however often they are sent.
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => {
                say(&format!(
                    "{} refuses {} spans: {status}",
                    self.url, request.spans
                ));
                return Ok(request.spans);
            }
            other => bail!("{}: it answers {other}", cannot()),
        }
        ensure!(
            kind.is_some_and(|kind| kind.as_bytes().starts_with(PROTOBUF.as_bytes())),
            "{}: what answers is no receiver of OTLP",
            cannot()
        );
        let answer = ExportTraceServiceResponse::decode(body.as_slice()).with_context(cannot)?;
        let partial = answer.partial_success.unwrap_or_default();
        let refused = u64::try_from(partial.rejected_spans)
            .unwrap_or(0)
            .min(request.spans);
        if refused > 0 {
            say(&format!(
                "{} refuses {refused} spans: {}",
                self.url, partial.error_message
            ));
        }
        Ok(refused)
    }
}

/// Reads `NAME=VALUE,NAME=VALUE`, with values as in URLs.
fn headers(typed: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in typed.split(',').filter(|pair| !pair.trim().is_empty()) {
        let wrong = || format!("{HEADERS} is no list of NAME=VALUE");
        let (name, value) = pair.split_once('=').with_context(wrong)?;
        // A value alone, as a query has it, in which + is no space.
        let query = format!("v={}", value.trim().replace('+', "%2B"));
        let decoded = url::form_urlencoded::parse(query.as_bytes()).next();
        let value = decoded
            .map(|(_, value)| value.into_owned())
            .unwrap_or_default();
        let name = HeaderName::from_bytes(name.trim().as_bytes()).with_context(wrong)?;
        let mut value = HeaderValue::from_str(&value).with_context(wrong)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Spans to be sent at once.
struct Request {
    body: Vec<u8>,
    spans: u64,
}

fn read(log: &Path, entry: &QueuedSlice, link: &str, to: &Sender<Request>) -> anyhow::Result<u64> {
    slice::spans(log, |batch| {
        let rows = batch.rows();
        let resource_spans = of_batch(batch, entry, link)?;
        let request = ExportTraceServiceRequest { resource_spans };
        let request = Request {
            body: request.encode_to_vec(),
            spans: u64::try_from(rows)?,
        };
        let sent = to.blocking_send(request);
        sent.map_err(|error| anyhow!("the spans are not taken: {error}"))
    })
}

/// Returns the spans of a batch, by the process that ended them.
fn of_batch(
    batch: RowBatch,
    entry: &QueuedSlice,
    link: &str,
) -> anyhow::Result<Vec<ResourceSpans>> {
    let rows = batch.rows();
    let columns = Columns(batch.into_columns().collect());
    let mut by_process: Vec<(i64, ResourceSpans)> = Vec::new();
    for row in 0..rows {
        let pid = columns.integer("pid", row)?;
        let span = of_row(&columns, row, entry, link)?;
        let found = by_process.iter_mut().find(|(other, _)| *other == pid);
        let spans = match found {
            Some((_, spans)) => spans,
            None => {
                by_process.push((pid, resource(&columns, row, entry)?));
                by_process
                    .last_mut()
                    .map(|(_, spans)| spans)
                    .context("no process")?
            }
        };
        if let Some(scope) = spans.scope_spans.first_mut() {
            scope.spans.push(span);
        }
    }
    Ok(by_process.into_iter().map(|(_, spans)| spans).collect())
}

fn resource(columns: &Columns, row: usize, entry: &QueuedSlice) -> anyhow::Result<ResourceSpans> {
    let comm = columns.text("comm", row)?;
    let mut attributes = vec![
        // As OpenTelemetry has it where a program has not said what service it is.
        text("service.name", format!("unknown_service:{comm}")),
        text("host.name", entry.host.clone()),
        integer("process.pid", columns.integer("pid", row)?),
    ];
    attributes.extend(
        entry
            .boot_id
            .iter()
            .map(|id| text("tracer.boot_id", id.clone())),
    );
    let scope = InstrumentationScope {
        name: "tracer-user".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    Ok(ResourceSpans {
        resource: Some(Resource {
            attributes,
            ..Resource::default()
        }),
        scope_spans: vec![ScopeSpans {
            scope: Some(scope),
            ..ScopeSpans::default()
        }],
        ..ResourceSpans::default()
    })
}

/// Columns that say how a span's time was spent.
const SPLIT: [&str; 6] = [
    "running_ns",
    "runnable_ns",
    "blocked_ns",
    "stopped_ns",
    "unpolled_ns",
    "unknown_ns",
];

fn of_row(columns: &Columns, row: usize, entry: &QueuedSlice, link: &str) -> anyhow::Result<Span> {
    let (ns, duration) = (
        columns.number("ns", row)?,
        columns.number("duration_ns", row)?,
    );
    let begin = u64::try_from(columns.integer("time", row)?).unwrap_or(0);
    let name = columns.text("name", row)?;
    let threads = ["pid", "tid", "begun_pid", "begun_tid"];
    let mut hash = Sha256::new();
    hash.update(b"tracer-user span\0");
    for text in [
        &entry.host,
        entry.boot_id.as_deref().unwrap_or_default(),
        &*name,
    ] {
        hash.update(u64::try_from(text.len())?.to_le_bytes());
        hash.update(text);
    }
    // Of an unknown boot the date tells spans apart.
    for value in [
        ns,
        duration,
        if entry.boot_id.is_some() { 0 } else { begin },
    ] {
        hash.update(value.to_le_bytes());
    }
    for column in threads {
        hash.update(columns.integer(column, row)?.to_le_bytes());
    }
    let digest = hash.finalize();
    let (trace_id, rest) = digest.split_at_checked(16).context("a short hash")?;
    let mut attributes = vec![
        integer("thread.id", columns.integer("tid", row)?),
        text("thread.name", columns.text("comm", row)?),
        text("tracer.slice", link.to_owned()),
        integer("tracer.ns", ns.cast_signed()),
    ];
    for column in SPLIT {
        let value = columns.number(column, row)?.cast_signed();
        attributes.push(integer(&format!("tracer.{column}"), value));
    }
    let of_trace = columns.id("otel_trace_id", row)?;
    let parent = columns.id("otel_span_id", row)?;
    Ok(Span {
        trace_id: of_trace.unwrap_or_else(|| trace_id.to_vec()),
        parent_span_id: parent.unwrap_or_default(),
        span_id: rest.get(..8).context("a short hash")?.to_vec(),
        name,
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: begin,
        end_time_unix_nano: begin.saturating_add(duration),
        attributes,
        ..Span::default()
    })
}

fn text(key: &str, value: String) -> KeyValue {
    attribute(key, Value::StringValue(value))
}

fn integer(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Columns of a batch, by name.
struct Columns(Vec<BatchColumn>);

impl Columns {
    fn values(&self, name: &str) -> anyhow::Result<&ColumnValues> {
        let found = self.0.iter().find(|column| column.column.name == name);
        let column = found.with_context(|| format!("spans have no column {name}"))?;
        Ok(&column.values)
    }

    fn number(&self, name: &str, row: usize) -> anyhow::Result<u64> {
        match self.values(name)? {
            ColumnValues::U64(values) => values.get(row).copied().context("no such row"),
            _ => bail!("column {name} of spans is of another type"),
        }
    }

    fn integer(&self, name: &str, row: usize) -> anyhow::Result<i64> {
        let value = match self.values(name)? {
            ColumnValues::I64(values) => values.get(row).copied(),
            ColumnValues::I32(values) => values.get(row).copied().map(i64::from),
            _ => bail!("column {name} of spans is of another type"),
        };
        value.context("no such row")
    }

    /// Returns an identifier that is written in hexadecimal digits, where there is one.
    fn id(&self, name: &str, row: usize) -> anyhow::Result<Option<Vec<u8>>> {
        let ColumnValues::TextValues(texts) = self.values(name)? else {
            bail!("column {name} of spans is of another type");
        };
        let digits = String::from_utf8_lossy(texts.get(row));
        if digits.is_empty() {
            return Ok(None);
        }
        let bytes = (0..digits.len()).step_by(2).map(|at| {
            let pair = digits.get(at..at + 2).unwrap_or_default();
            u8::from_str_radix(pair, 16)
        });
        let bytes = bytes.collect::<Result<Vec<_>, _>>();
        bytes
            .map(Some)
            .with_context(|| format!("{name} is no identifier"))
    }

    fn text(&self, name: &str, row: usize) -> anyhow::Result<String> {
        let ColumnValues::Name(numbers, names) = self.values(name)? else {
            bail!("column {name} of spans is of another type");
        };
        let number = numbers.get(row).copied().context("no such row")?;
        let bytes = names.texts().get(usize::try_from(number)?);
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use tracer_tables::{
        Column, ColumnType, NameDictionary, TableDefinition, TextValues, ValuePlace,
    };

    use super::*;

    /// Returns the columns of a span that works for these identifiers.
    fn columns(trace: &str, span: &str) -> Columns {
        let table = TableDefinition::named("spans").unwrap();
        let column = |column: &'static Column| {
            let values = match column.of {
                ColumnType::U64 => ColumnValues::U64(vec![7]),
                ColumnType::Time => ColumnValues::I64(vec![7]),
                ColumnType::I32 => ColumnValues::I32(vec![7]),
                ColumnType::Name => ColumnValues::Name(vec![0], NameDictionary::default()),
                _ => {
                    let id = if column.name == "otel_trace_id" {
                        trace
                    } else {
                        span
                    };
                    ColumnValues::TextValues(TextValues {
                        bytes: id.as_bytes().to_vec(),
                        places: vec![ValuePlace {
                            start: 0,
                            length: u32::try_from(id.len()).unwrap(),
                        }],
                    })
                }
            };
            BatchColumn {
                column,
                values,
                valid: Vec::new(),
                is_absent: false,
            }
        };
        Columns(table.columns().map(column).collect())
    }

    #[test]
    fn a_span_is_of_the_trace_that_its_thread_worked_for() {
        let entry = QueuedSlice {
            slice: "0".repeat(32),
            boot_id: None,
            host: "h".to_owned(),
            is_stored: false,
            bytes: 0,
            changed: std::time::SystemTime::UNIX_EPOCH,
        };
        let span = |trace, span| of_row(&columns(trace, span), 0, &entry, "link");
        let alone = span("", "").unwrap();
        assert_eq!((alone.trace_id.len(), alone.parent_span_id.len()), (16, 0));
        // As the specification of the header `traceparent` has them.
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let of_trace = span(trace, parent).unwrap();
        assert_eq!(crate::queue::hex(&of_trace.trace_id), trace);
        assert_eq!(crate::queue::hex(&of_trace.parent_span_id), parent);
        assert_eq!(of_trace.span_id, alone.span_id);
        assert!(span("4bx9", parent).is_err());
    }

    #[test]
    fn an_address_is_that_of_traces_and_headers_are_as_the_environment_has_them() {
        let url = |typed| Receiver::new(typed, Duration::from_secs(1)).map(|to| to.url.to_string());
        let _ = rustls::crypto::ring::default_provider().install_default();
        for typed in ["http://h:4318", "http://h:4318/", "http://h:4318/v1/traces"] {
            assert_eq!(url(typed).unwrap(), "http://h:4318/v1/traces");
        }
        assert_eq!(url("https://h/otlp").unwrap(), "https://h/otlp/v1/traces");
        for typed in ["", "h:4318", "grpc://h", "file:///x"] {
            assert!(url(typed).is_err(), "{typed}");
        }
        let found = headers("a=1, Authorization=Bearer%20x+y==").unwrap();
        assert_eq!(found["authorization"], "Bearer x+y==");
        assert_eq!(found["a"], "1");
        assert!(headers("a").is_err() && headers("a b=1").is_err());
    }
}
