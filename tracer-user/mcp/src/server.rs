//! The server: lists the tools, and calls them.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as Listed,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::transport::stdio;
use serde_json::Map;
use tokio::sync::{Mutex, Semaphore};

use crate::ServerSetup;
use crate::answer::{refused, render};
use crate::cache::{Cache, LogQuestion};
use crate::call::{ToolCall, check};
use crate::child::{self, CommandOutput};
use crate::refusal::Refusal;
use crate::tools::{TOOLS, Tool, ToolSubject};

/// Commands that run at the same time.
const AT_ONCE: usize = 2;

/// Bytes of a refusal of a call that has no budget.
const REFUSAL_BYTES: usize = 2048;

/// Serves a client at the standard input and output until it leaves.
///
/// # Errors
///
/// The client does not speak the protocol, or the server cannot be started.
pub fn serve(setup: ServerSetup) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the server cannot be started")?;
    let served = runtime.block_on(async {
        let server = Server {
            setup,
            state: Mutex::default(),
            running: Semaphore::new(AT_ONCE),
        };
        let running = server
            .serve(stdio())
            .await
            .context("the client at the standard input does not speak the protocol")?;
        running.waiting().await.context("the server has ended")?;
        anyhow::Ok(())
    });
    // A read of the standard input that is under way is not waited for.
    runtime.shutdown_background();
    served
}

struct Server {
    setup: ServerSetup,
    state: Mutex<State>,
    running: Semaphore,
}

#[derive(Default)]
struct State {
    /// Log that was named last.
    current: Option<PathBuf>,
    cache: Cache,
}

impl Server {
    /// Answers a call within its budget.
    async fn answer(&self, request: &CallToolRequestParams) -> Result<String, String> {
        let nothing = Map::new();
        let given = request.arguments.as_ref().unwrap_or(&nothing);
        let current = self.state.lock().await.current.clone();
        let call = check(
            &request.name,
            given,
            current.as_deref(),
            self.setup.may_record,
        )
        .map_err(|refusal| refused(&refusal, REFUSAL_BYTES))?;
        let bytes = call.budget;
        self.run(&call)
            .await
            .map_err(|refusal| refused(&refusal, bytes))
    }

    async fn run(&self, call: &ToolCall) -> Result<String, Refusal> {
        let written = self.written(call).await?;
        if let Some(made) = &call.made {
            // Its own outputs are those of the command, too.
            if !matches!(written.code, Some(0 | 1)) && !made.is_file() {
                return Err(Refusal::of_command(&written.notes));
            }
            self.state.lock().await.current = Some(made.clone());
            return self.explain(call).await;
        }
        let shown = render(&written, call.is_json, call.budget, &again(call))?;
        if call.tool.subject == ToolSubject::Log {
            self.state.lock().await.current = call.logs.first().cloned();
        }
        Ok(shown)
    }

    /// Explains the log that a call has made.
    async fn explain(&self, made: &ToolCall) -> Result<String, Refusal> {
        let mut given = Map::new();
        given.insert("budget".to_owned(), made.budget.into());
        if made.is_json {
            given.insert("format".to_owned(), "json".into());
        }
        let call = check("explain", &given, made.made.as_deref(), false)?;
        let written = self.written(&call).await?;
        render(&written, call.is_json, call.budget, &again(&call))
    }

    async fn written(&self, call: &ToolCall) -> Result<Arc<CommandOutput>, Refusal> {
        let is_about_logs = matches!(call.tool.subject, ToolSubject::Log | ToolSubject::TwoLogs);
        // A page is made each time.
        let question = if is_about_logs && call.tool.has_format {
            LogQuestion::about(&call.words, &call.logs)
        } else {
            None
        };
        if let Some(question) = &question
            && let Some(known) = self.state.lock().await.cache.get(question)
        {
            return Ok(known);
        }
        let _turn = self.running.acquire().await;
        let written =
            Arc::new(child::run(&self.setup.program, &call.words, call.made.is_none()).await?);
        if let (Some(question), Some(0 | 1)) = (question, written.code) {
            self.state.lock().await.cache.put(question, written.clone());
        }
        Ok(written)
    }
}

/// Returns how to get what a budget has left out.
fn again(call: &ToolCall) -> String {
    format!(
        "{} again with a larger budget than {}, or ask for less (its other fields)",
        call.tool.name, call.budget
    )
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(
                "tracer-user",
                env!("CARGO_PKG_VERSION"),
            ))
            .with_instructions(self.setup.instructions.clone())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, rmcp::ErrorData> {
        let allowed = TOOLS
            .iter()
            .filter(|tool| self.setup.may_record || !tool.records);
        Ok(ListToolsResult::with_all_items(
            allowed.map(listed).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        let answered = tokio::select! {
            answered = self.answer(&request) => answered,
            () = context.ct.cancelled() => Err("cancelled".to_owned()),
        };
        let result = match answered {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
        };
        Ok(result.into())
    }
}

fn listed(tool: &Tool) -> Listed {
    let changes_nothing = !tool.records && tool.has_format;
    Listed::new(tool.name, tool.about, Arc::new(tool.input_schema())).with_annotations(
        ToolAnnotations::new()
            .read_only(changes_nothing)
            .destructive(false),
    )
}
