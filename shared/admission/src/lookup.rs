//! What plugins know of other objects.
//!
//! Contract: a plugin reads objects of a kind through one small trait, in the shape it needs them in, and does not know
//! whether they are this tier's own or mirrored from another. That something is absent is only said when it is certain,
//! so that an object created a moment ago counts.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{StatusResult, Value};

/// Single objects of one kind, as far as they matter to a plugin.
pub trait Find<T>: Send + Sync + 'static {
    /// The object of a name; the namespace is empty for cluster-scoped kinds.
    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Arc<T>>>>;
}

/// All objects of one kind, as far as they matter to a plugin.
pub trait Lookup<T>: Find<T> {
    /// All objects of a namespace (empty for cluster-scoped kinds) that are known, in the order of their names.
    fn all(&self, namespace: &str) -> StatusResult<Vec<Arc<T>>>;
}

/// What is taken out of an object.
pub trait Facts: Send + Sync + Sized + 'static {
    /// Of this object.
    fn of(object: &Value) -> Self;
}

#[cfg(test)]
pub(crate) mod fixed {
    use super::*;
    use triptych_object::{json, meta};

    /// A lookup over given objects.
    pub struct Fixed<T>(Vec<(String, String, Arc<T>)>);

    impl<T: Facts> Fixed<T> {
        pub fn of(objects: &[&str]) -> Arc<Fixed<T>> {
            let read = |text: &&str| {
                let object = json::from_slice(text.as_bytes()).unwrap();
                let facts = Arc::new(T::of(&object));
                (
                    meta::namespace(&object).to_owned(),
                    meta::name(&object).to_owned(),
                    facts,
                )
            };
            Arc::new(Fixed(objects.iter().map(read).collect()))
        }
    }

    impl<T: Send + Sync + 'static> Find<T> for Fixed<T> {
        fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Arc<T>>>> {
            let found = self.0.iter().find(|(ns, n, _)| ns == namespace && n == name);
            let found = found.map(|(_, _, facts)| facts.clone());
            Box::pin(std::future::ready(Ok(found)))
        }
    }

    impl<T: Send + Sync + 'static> Lookup<T> for Fixed<T> {
        fn all(&self, namespace: &str) -> StatusResult<Vec<Arc<T>>> {
            let within = self.0.iter().filter(|(ns, _, _)| ns == namespace);
            Ok(within.map(|(_, _, facts)| facts.clone()).collect())
        }
    }
}
