//! `[large]`, for the rules and for the control plane.

use super::Resolver;
use crate::config::keys::{Adapter, LargeEvents};
use crate::config::layer::Path;
use control::bodies::{Bounds, Bucket, Namespaces, Place, Settings, UploadSettings, WITHOUT_S3};
use hub::config::Cors;
use rules::Large;
use std::time::Duration;

/// A reference is an event, too: it must never be a large one.
const THRESHOLD_MIN: usize = 4 << 10;
/// One piece of a transfer has as much.
const RATE_MIN: usize = 64 << 10;
/// A shard waits a little longer than the store may take.
const GRACE: Duration = Duration::from_secs(1);

impl Resolver<'_> {
    pub(super) fn large(&mut self) -> Namespaces {
        let keys = &self.settings.large;
        let (above, timeout) = (keys.threshold.get(), *keys.store_timeout + GRACE);
        if above < THRESHOLD_MIN {
            self.problem(&keys.threshold, "must be \"4KiB\" or more");
        }
        let all = crate::config::rules::large(self.layer).into_iter();
        let meant = all.map(|(name, large)| {
            let large = match large {
                LargeEvents::Through => Large::Through,
                LargeEvents::Store => Large::Store { above, timeout },
                LargeEvents::Refuse => Large::Refuse { above },
            };
            (name, large)
        });
        meant.collect()
    }

    /// Without `cors`, which is that of the hub.
    pub(super) fn bodies(&mut self, namespaces: &Namespaces) -> Option<Settings> {
        let stores = |large: &Large| matches!(large, Large::Store { .. });
        let stored = namespaces.iter().find(|(_, large)| stores(large));
        let keys = &self.settings.large;
        let uploads = self.uploads();
        let Some((name, _)) = stored else {
            if uploads.is_some() {
                let message =
                    "no namespace keeps what is uploaded: set namespaces.\"/\".large = \"store\"";
                self.problem(&self.settings.uploads.uploads, message);
            }
            return None;
        };
        self.large_times();
        let place = Path::new(&["namespaces", name, "large"]);
        let Some(folder) = keys.folder.as_ref().filter(|name| !name.is_empty()) else {
            self.problem_at(
                &place,
                "cannot store large events without a folder: set large.folder",
            );
            return None;
        };
        let is_alone = *self.settings.cluster.adapter == Adapter::Memory;
        if !is_alone && keys.secret.is_none() {
            let message = "other nodes would not know the addresses that this one makes: set it, the same on all nodes";
            self.problem(&keys.secret, message);
        }
        Some(Settings {
            place: Place {
                folder: self.machine.folder.join(folder),
                folder_bytes_max: keys.folder_max.get() as u64,
                bucket: self.bucket(),
            },
            namespaces: namespaces.clone(),
            secret: (*keys.secret).clone(),
            public_url: self.public_url(),
            url_lifetime: *keys.url_lifetime,
            keep: *keys.keep,
            store_timeout: *keys.store_timeout,
            idle_timeout: *keys.idle_timeout,
            transfer_timeout: *keys.transfer_timeout,
            bytes_per_second: keys.bytes_per_second.get() as u64,
            transfers_max: keys.transfers_max.get(),
            transfers_per_address: keys.transfers_per_address.get(),
            cors: Cors::Off,
            uploads,
        })
    }

    fn large_times(&mut self) {
        let keys = &self.settings.large;
        for key in [
            &keys.url_lifetime,
            &keys.keep,
            &keys.store_timeout,
            &keys.idle_timeout,
            &keys.transfer_timeout,
        ] {
            if **key < Duration::from_secs(1) {
                self.problem(key, "must be 1s or longer");
            }
        }
        if keys.bytes_per_second.get() < RATE_MIN {
            let message = "must be \"64KiB\" or more";
            self.problem(&keys.bytes_per_second, message);
        }
        if *keys.keep < *keys.url_lifetime {
            let message = "is shorter than large.url_lifetime: good addresses would lead nowhere";
            self.problem(&keys.keep, message);
        }
    }

    fn public_url(&mut self) -> String {
        let key = &self.settings.large.public_url;
        let url = (**key).clone().unwrap_or_default();
        let is_origin = url.starts_with("https://") || url.starts_with("http://");
        if !url.is_empty() && (!is_origin || url.contains(['?', '#', '"', ' '])) {
            self.problem(key, "must look like \"https://files.example.com\"");
        }
        url
    }

    fn bucket(&mut self) -> Option<Bucket> {
        let keys = &self.settings.large;
        let name = (*keys.bucket).clone().filter(|name| !name.is_empty())?;
        if !self.machine.has_s3 {
            self.problem(&keys.bucket, WITHOUT_S3);
        }
        if keys.access_key.is_none() || keys.secret_key.is_none() {
            let message = "the bucket needs large.access_key and large.secret_key";
            self.problem(&keys.bucket, message);
        }
        let endpoint = (*keys.endpoint).clone().filter(|url| !url.is_empty());
        if let Some(url) = &endpoint
            && !url.starts_with("http://")
            && !url.starts_with("https://")
        {
            self.problem(&keys.endpoint, "must look like \"https://s3.example.com\"");
        }
        Some(Bucket {
            name,
            prefix: (*keys.prefix).clone().unwrap_or_default(),
            endpoint,
            region: keys.region.clone(),
            access_key: (*keys.access_key).clone().unwrap_or_default(),
            secret_key: (*keys.secret_key)
                .clone()
                .unwrap_or_else(|| identity::Secret::new("")),
        })
    }

    fn uploads(&mut self) -> Option<UploadSettings> {
        let keys = &self.settings.uploads;
        if !*keys.uploads {
            return None;
        }
        if keys.upload_window.is_zero() {
            self.problem(&keys.upload_window, "must be longer than zero");
        }
        Some(UploadSettings {
            bytes_max: keys.upload_max.get() as u64,
            user: Bounds {
                at_once: keys.uploads_per_user.get(),
                bytes: keys.upload_bytes_per_user.get() as u64,
            },
            address: Bounds {
                at_once: keys.uploads_per_address.get(),
                bytes: keys.upload_bytes_per_address.get() as u64,
            },
            window: *keys.upload_window,
        })
    }
}
