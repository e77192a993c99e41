//! Large events of workers, by the store that programs use.

use super::Api;
use crate::bodies;
use rules::{Large, Message};
use workers::{Kept, Larder};

impl Larder for Api {
    fn is_needless(&self) -> bool {
        self.large().is_empty()
    }

    fn treatment(&self, namespace: &str) -> Large {
        bodies::treatment(self.large(), namespace)
    }

    fn keep<'a>(&'a self, namespace: &'a str, message: &'a Message) -> Kept<'a> {
        Box::pin(async move { self.bodies()?.replace(namespace, message).await.ok()? })
    }
}
