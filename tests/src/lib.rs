//! Support for the tests of the whole house: real databases, real servers on loopback, clocks that tests set.

pub mod bulk;
pub mod client;
pub mod database;
pub mod exposition;
pub mod issuer;
pub mod postgres;
pub mod process;
pub mod raw_call;
pub mod receiver;
pub mod recorder;
pub mod redis;
pub mod server;
pub mod stepped_clock;
pub mod tools;
pub mod visitor;

pub use client::{Answer, Client, Era};
pub use database::Database;
pub use exposition::Exposition;
pub use issuer::{Issuer, SigningKey};
pub use process::ServerProcess;
pub use server::TestServer;
pub use stepped_clock::SteppedClock;

/// Writes a test once and runs it with limits of one process and with shared ones as well: what
/// [`on_both_databases`] makes of it, and `name::redis`.
#[macro_export]
macro_rules! with_both_engines {
    ($($(#[$attribute:meta])* async fn $name:ident($database:ident: $type:ty) $body:block)+) => {
        $(
            $(#[$attribute])*
            mod $name {
                use super::*;

                async fn everywhere($database: $type) $body

                $crate::on_both_databases! {
                    async fn alone(database: Database) {
                        everywhere(database).await;
                    }
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn redis() {
                    let database = $crate::Database::with_redis().await;
                    everywhere(database.clone()).await;
                    let prefix = database.shared_as().expect("a prefix");
                    $crate::redis::forget(&$crate::redis::url(), prefix).await;
                }
            }
        )+
    };
}

/// Writes a test once and runs it on both databases: `name::sqlite` and `name::postgres`.
///
/// ```ignore
/// on_both_databases! {
///     async fn a_key_opens_its_tenant(database: Database) {}
/// }
/// ```
#[macro_export]
macro_rules! on_both_databases {
    ($($(#[$attribute:meta])* async fn $name:ident($database:ident: $type:ty) $body:block)+) => {
        $(
            $(#[$attribute])*
            mod $name {
                use super::*;

                async fn test($database: $type) $body

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn sqlite() {
                    test($crate::Database::sqlite().await).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn postgres() {
                    if let Some(database) = $crate::Database::postgres().await {
                        test(database).await;
                    }
                }
            }
        )+
    };
}
