//! Live reads from the API server, and the evidence that they provide.

mod access;
mod evidence;
mod live_get;
mod page;
mod shared_list;
mod tokens;
mod webhook_configurations;

pub use access::Access;
pub use evidence::{Basis, Evidence, Proof};
pub use live_get::LiveGet;
pub use page::read_page;
pub use shared_list::{SharedList, read_all};
pub use tokens::Tokens;
pub use webhook_configurations::{
    Configuration, Configurations, ServiceName, StoredConfiguration, Webhook, is_forbidden,
};
