//! Five mistakes in three methods are five errors, and nothing follows from them.
use sluicegate::prelude::*;

struct Reports;

#[tools]
impl Reports {
    #[tool(rate_limit = ["10/s", "0/min"], concurency = 4)]
    async fn export(&self, dataset: String) -> String {
        dataset
    }

    #[tool(rate_limit = "5/min", cost = 6)]
    async fn import(&self) {}

    #[tool(timeout = 30, name = "not a name")]
    async fn list(&self) {}

    async fn no_tool(&self) {}
}

fn registered(_tools: impl sluicegate::ToolSet) {}

fn main() {
    registered(Reports);
    drop(Reports.export(String::new()));
    drop(Reports.no_tool());
}
