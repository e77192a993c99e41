//! A bucket that speaks S3, in place of a folder. Its client is half a minute of a build, so a build may leave it out.

use identity::Secret;
use object_store::ObjectStore;
#[cfg(feature = "s3")]
use object_store::{
    BackoffConfig, ClientOptions, RetryConfig,
    aws::{AmazonS3Builder, S3ConditionalPut},
    path::Path,
    prefix::PrefixStore,
};
use std::sync::Arc;
use std::time::Duration;

/// Whether this build has a client for buckets.
pub const HAS_S3: bool = cfg!(feature = "s3");

/// The advice where it has none.
pub const WITHOUT_S3: &str = "this build has no client for S3: leave large.bucket out to keep bodies in large.folder, or build with \
                              `--features s3`; packages and images have it";

/// Attempts that a request to a bucket may cost, within its time.
#[cfg(feature = "s3")]
const RETRIES_MAX: usize = 2;

/// A bucket that speaks S3.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    pub name: String,
    /// Before all names.
    pub prefix: String,
    /// `None`: Amazon's own.
    pub endpoint: Option<String>,
    pub region: String,
    pub access_key: String,
    pub secret_key: Secret,
}

#[cfg(not(feature = "s3"))]
pub(super) fn open(_: &Bucket, _: Duration) -> Result<Arc<dyn ObjectStore>, String> {
    Err(WITHOUT_S3.to_owned())
}

#[cfg(feature = "s3")]
pub(super) fn open(bucket: &Bucket, timeout: Duration) -> Result<Arc<dyn ObjectStore>, String> {
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES_MAX,
        retry_timeout: timeout,
    };
    let plain = bucket.endpoint.as_ref();
    let plain = plain.is_some_and(|endpoint| endpoint.starts_with("http://"));
    // Its own timeouts would count the time that a slow client takes for a body. `within` bounds each request.
    let options = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(timeout)
        .with_allow_http(plain);
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&bucket.name)
        .with_region(&bucket.region)
        .with_access_key_id(&bucket.access_key)
        .with_secret_access_key(bucket.secret_key.reveal())
        .with_conditional_put(S3ConditionalPut::Disabled)
        .with_retry(retry)
        .with_client_options(options);
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let objects = builder.build();
    let objects = objects.map_err(|error| format!("cannot use the bucket: {error}"))?;
    let prefix = Path::from(bucket.prefix.as_str());
    Ok(Arc::new(PrefixStore::new(objects, prefix)))
}
