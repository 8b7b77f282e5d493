//! What the macros write, locked by snapshots, and what they say about mistakes.
//!
//! Accept changed snapshots with `INSTA_UPDATE=always cargo test -p sluicegate-macros`, and read their diff.

use proc_macro2::TokenStream;
use quote::quote;

use crate::attribute::ToolAttribute;
use crate::errors::Errors;
use crate::{free_tool, tool_set};

fn pretty(tokens: TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(tokens).expect("the expansion is a list of items"))
}

fn mistakes(arguments: TokenStream) -> Vec<String> {
    let mut errors = Errors::default();
    ToolAttribute::read(arguments, &mut errors);
    errors.messages()
}

#[test]
fn an_impl_block_keeps_its_methods_and_gets_a_tool_set() {
    let expanded = tool_set::expand(
        TokenStream::new(),
        &quote! {
            impl<T: Store> Reports<T>
            where
                T: Clone,
            {
                /// Export a dataset.
                ///
                /// As a file.
                #[tool(rate_limit = "5/min", timeout = "30s", concurrency = 4, scopes = ["reports:read"])]
                #[must_use]
                pub async fn export(
                    &self,
                    /// Which dataset.
                    dataset: String,
                    format: Option<Format>,
                    ctx: CallContext,
                ) -> Result<Json<Exported>, ToolError> {
                    self.store.export(dataset, format, ctx).await
                }

                #[cfg(feature = "import")]
                #[tool(name = "reports.import", validate = true)]
                async fn import(self: Arc<Self>, Params(all): Params<Import>) {}

                /// No tool.
                fn helper(&self) {}
            }
        },
    );
    insta::assert_snapshot!(pretty(expanded));
}

#[test]
fn a_free_function_stays_and_gets_a_type_of_its_name() {
    let expanded = free_tool::expand(
        quote!(
            title = "Say it again",
            rate_limit = ["10/s", "1_000/60min"],
            burst = 20,
            algorithm = "token_bucket",
            per = "tenant",
            cost = 5,
            priority = "high",
            crate = "my::sluicegate"
        ),
        &quote! {
            #[doc = include_str!("echo.md")]
            pub(crate) async fn echo(r#type: String, mut n: u8) -> String {
                r#type.repeat(n.into())
            }
        },
    );
    insta::assert_snapshot!(pretty(expanded));
}

#[test]
fn an_item_with_mistakes_is_kept_and_stays_registrable() {
    let expanded = tool_set::expand(
        TokenStream::new(),
        &quote! {
            impl Reports {
                #[tool(rate_limit = "5/mim", cost = 0)]
                fn export(
                    &mut self,
                    /// Which dataset.
                    dataset: String,
                ) -> String {
                    dataset
                }
            }
        },
    );
    insta::assert_snapshot!(pretty(expanded));
}

#[test]
fn generated_code_names_nothing_but_the_private_module() {
    let expanded = free_tool::expand(
        quote!(crate = "facade"),
        &quote!(
            async fn echo(text: String) {}
        ),
    );
    let code = expanded.to_string();
    for outside in ["std ::", "core ::", "alloc ::", "sluicegate ::", "Ok (", "Some (", "vec !"] {
        assert!(!code.contains(outside), "`{outside}` in {code}");
    }
}

#[test]
fn hints_are_flags_and_icons_are_addresses() {
    assert_eq!(
        mistakes(quote!(read_only = "yes", icons = ["https://example.com/icon.svg", "icon.svg"])),
        [
            "`read_only` takes `true` or `false`: `read_only = true`",
            "an icon is the address of an image: https://…, http://… or data:…",
        ]
    );
}

#[test]
fn all_mistakes_of_an_attribute_are_reported_together() {
    assert_eq!(
        mistakes(quote!(
            rate_limit = ["5/mim", 3],
            burst = 0,
            cots = 2,
            timeout = "soon",
            per = "agent",
            per = "tenant"
        )),
        [
            "unknown key `cots` (did you mean `cost`?): the keys are rate_limit, burst, algorithm, per, cost, concurrency, \
             timeout, priority, on_outage, scopes, name, title, description, icons, read_only, destructive, \
             idempotent, open_world, validate, crate",
            "`per` is given twice: keep one",
            "`rate_limit` takes a text in quotes: `rate_limit = \"100/min\"`",
            "unknown unit `mim` in `5/mim`: use ms, s, min, h or d (did you mean `min`?)",
            "`burst` is at least 1; leave it out for the default",
            "bad timeout `soon`: write a whole number, at least 1, and one of ms, s, min, h, d, like \"30s\"",
        ]
    );
}

#[test]
fn a_cost_is_checked_against_the_smallest_limit() {
    assert_eq!(mistakes(quote!(rate_limit = ["100/min", "5/s"], cost = 5)), [""; 0]);
    assert_eq!(
        mistakes(quote!(rate_limit = ["100/min", "5/s"], cost = 6)),
        ["cost of 6 is above what the limit 5/s can ever hold (5): lower the cost or raise the quota"]
    );
    assert_eq!(mistakes(quote!(rate_limit = "100/min", burst = 200, cost = 200)), [""; 0]);
    // Nothing is known of the server's own limits here.
    assert_eq!(mistakes(quote!(cost = 1_000)), [""; 0]);
}

#[test]
fn timeouts_are_written_like_windows() {
    for (written, milliseconds) in
        [("500ms", 500), ("30s", 30_000), ("5min", 300_000), ("1h", 3_600_000), ("2 min", 120_000)]
    {
        let mut errors = Errors::default();
        let attribute = ToolAttribute::read(quote!(timeout = #written), &mut errors);
        assert_eq!(errors.messages(), [""; 0]);
        let declared = attribute.declared.to_tokens(&quote!(p)).to_string();
        assert!(declared.contains(&format!("Some ({milliseconds}u64)")), "{written}: {declared}");
    }
    for written in ["", "s", "0s", "-1s", "1.5s", "30", "1/s", "10s,5s", "400d"] {
        assert_eq!(mistakes(quote!(timeout = #written)).len(), 1, "{written}");
    }
}

#[test]
fn names_follow_the_rule_of_mcp() {
    let longest = "n".repeat(128);
    for name in ["a", "reports.export-2_B", &longest] {
        assert_eq!(mistakes(quote!(name = #name)), [""; 0]);
    }
    let too_long = "n".repeat(129);
    for name in ["", "a b", "a/b", "größe", &too_long] {
        assert_eq!(mistakes(quote!(name = #name)).len(), 1, "{name}");
    }
    let expanded = free_tool::expand(
        TokenStream::new(),
        &quote!(
            async fn größe() {}
        ),
    )
    .to_string();
    assert!(expanded.contains("not a tool name: `ö` in `größe`"), "{expanded}");
}
