//! The vocabulary of a Kubernetes API server, without I/O and without async: the document tree, object metadata,
//! group-version-kinds, field paths and their errors, `Status`, who asks and for what.
//!
//! Everything above builds on these types; nothing here knows of schemas, storage or HTTP connections.

pub mod duration;
pub mod empties;
pub mod field;
pub mod gvk;
pub mod json;
pub mod meta;
pub mod names;
pub mod quantity;
pub mod request;
pub mod resource_name;
pub mod selector;
pub mod status;
pub mod time;
pub mod user;
pub mod value;
pub mod version;
pub mod yaml;

pub use empties::Empties;
pub use gvk::{GroupKind, GroupResource, GroupVersion, Gvk, Gvr};
pub use quantity::Quantity;
pub use request::RequestInfo;
pub use status::{Cause, Status, StatusResult};
pub use user::UserInfo;
pub use value::{Object, Value};
