//! Asking an rmcp handler for all of its tools, at the start and for every list.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, InitializeRequestParams, ListToolsRequest,
    ListToolsResult, PaginatedRequestParams, RequestId, ServerConfig, ServerJsonRpcMessage, ServerResult, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, Service, serve_directly};
use rmcp::transport::OneshotTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler};

/// How long a handler may take to list its tools when the server starts.
const TIMEOUT: Duration = Duration::from_secs(30);
/// More pages than this are a handler whose cursor goes round in circles.
const MOST_PAGES: usize = 1_000;

/// Why the tools of an rmcp handler are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// It answered with an error.
    #[error("the rmcp handler does not list its tools: {0}")]
    Refused(String),
    /// It did not answer.
    #[error("the rmcp handler did not list its tools: it panicked, or took longer than {} s", TIMEOUT.as_secs())]
    Silent,
}

/// Every page of a handler's `tools/list`.
pub(crate) async fn all_tools<H: ServerHandler>(
    handler: &H,
    context: &RequestContext<RoleServer>,
) -> Result<Vec<Tool>, ErrorData> {
    let mut tools = Vec::new();
    let mut page = None;
    for _ in 0..MOST_PAGES {
        let listed = handler.list_tools(page, context.clone()).await?;
        tools.extend(listed.tools);
        let Some(cursor) = listed.next_cursor else { return Ok(tools) };
        page = Some(PaginatedRequestParams::default().with_cursor(Some(cursor)));
    }
    Err(ErrorData::internal_error(format!("the list of tools has more than {MOST_PAGES} pages"), None))
}

/// What a handler lists before anybody calls: asked as a peer would ask, since only rmcp can make a request's context.
pub(crate) async fn learn<H: ServerHandler>(handler: Arc<H>) -> Result<Vec<Tool>, LearnError> {
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
    let message = ClientJsonRpcMessage::request(request, RequestId::Number(1));
    let (transport, mut answers) = OneshotTransport::<RoleServer>::new(message);
    let _running = serve_directly(Learner(handler), transport, Some(InitializeRequestParams::default()));
    let answer = async {
        loop {
            match answers.recv().await? {
                ServerJsonRpcMessage::Response(response) => return Some(Ok(response.result)),
                ServerJsonRpcMessage::Error(refusal) => return Some(Err(refusal.error)),
                _ => {}
            }
        }
    };
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(Some(Ok(ServerResult::ListToolsResult(listed)))) => Ok(listed.tools),
        // A handler without tools need not answer the question.
        Ok(Some(Err(error))) if error.code == ErrorCode::METHOD_NOT_FOUND => Ok(Vec::new()),
        Ok(Some(Err(error))) => Err(LearnError::Refused(error.message.into_owned())),
        Ok(Some(Ok(_)) | None) | Err(_) => Err(LearnError::Silent),
    }
}

/// Answers one request with all pages.
struct Learner<H>(Arc<H>);

impl<H: ServerHandler> Service<RoleServer> for Learner<H> {
    async fn handle_request(
        &self,
        _request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let tools = all_tools(&*self.0, &context).await?;
        Ok(ServerResult::ListToolsResult(ListToolsResult::with_all_items(tools)))
    }

    async fn handle_notification(
        &self,
        _notification: ClientNotification,
        _context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&*self.0)
    }
}
