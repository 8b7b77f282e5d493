//! Listing and calling tools: ours, and those of the author's handler, by one rule.

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, ListToolsResult, ProtocolVersion, Tool as ToolDescription,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::{Handler, bypassed, visit};
use crate::call::Call;
use crate::call_scope::{Failure, run, scope};
use crate::learn;
use crate::panic::answered;
use crate::passage::{Passage, Visible, Visit, attached};
use crate::replay::once;
use crate::wire::Wire;

impl<H: ServerHandler> Handler<H> {
    /// All tools that the caller may see, on one page.
    pub(super) async fn list(&self, context: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        let Visit { visible, request_id, .. } = visit(&context, "tools/list")?;
        // One caller's list must never be handed to another by a cache on the way. Revisions before 2026-07-28 know no
        // hints.
        let hinted = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let registry = self.shared.registry.iter().zip(&self.shared.descriptions);
        let ours = registry.filter(|((index, tool), _)| !tool.is_of_handler() && visible.shows(*index));
        let mut tools: Vec<ToolDescription> = ours.map(|(_, description)| description.clone()).collect();
        if self.shared.has_foreign_tools {
            let listed = answered("tools/list", &request_id, learn::all_tools(&*self.inner, &context)).await?;
            tools.extend(listed.into_iter().filter(|tool| self.is_foreign(tool, &visible)));
            tools.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let result = ListToolsResult::with_all_items(tools);
        if !hinted {
            return Ok(result);
        }
        Ok(result.with_cache_scope(CacheScope::Private).with_ttl_ms(self.shared.info.tools_list_ttl_ms))
    }

    /// Whether a tool that the author's handler lists is one that it had at the start, and that the caller may see. A
    /// tool that came later has no limits and cannot be called.
    fn is_foreign(&self, tool: &ToolDescription, visible: &Visible) -> bool {
        let known = self.shared.registry.get(&tool.name).filter(|(_, known)| known.is_of_handler());
        known.is_some_and(|(index, _)| visible.shows(index))
    }

    /// Runs an admitted call, and no other.
    pub(super) async fn call(
        &self,
        mut request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let visit = visit(&context, "tools/call")?;
        let admitted = match attached::<Passage>(&context.extensions) {
            Some(Passage::Admitted(admitted)) => admitted.clone(),
            Some(Passage::NoSuchTool(name)) if **name == *request.name => {
                return Err(ErrorData::invalid_params("tool not found", None));
            }
            _ => return Err(bypassed("tools/call")),
        };
        let tool = self.shared.registry.tool(admitted.tool());
        if tool.name() != request.name {
            return Err(bypassed("tools/call"));
        }
        let cancellation = context.ct.clone();
        // A further round has answers that the first did not have, so it is no repetition of it.
        let is_whole = request.input_responses.is_none() && request.request_state.is_none();
        let keyed =
            if is_whole { self.shared.replays.keyed(tool, &admitted, request.arguments.as_ref()) } else { None };
        if tool.is_of_handler() {
            let work = async |call: crate::CallContext| {
                context.ct = call.cancellation();
                context.extensions.insert(call);
                once(keyed, async || self.inner.call_tool(request, context).await.map_err(Failure::Protocol)).await
            };
            let response = scope(tool.name(), admitted, None, Some(&cancellation), work).await?;
            if let CallToolResponse::Task(created) = &response {
                self.shared.tasks.note(&created.task.task_id, &visit.owner);
            }
            return Ok(response);
        }
        let wire = Wire::of(&mut request, &context, &self.log_level, &self.shared.seal);
        let arguments = request.arguments.unwrap_or_default();
        let work = |call| once(keyed, || run(tool, Call::new(arguments, call)));
        scope(tool.name(), admitted, Some(wire), Some(&cancellation), work).await
    }
}
