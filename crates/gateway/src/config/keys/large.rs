//! `[large]`: where the bodies of large events and uploads are kept, and who may fetch and upload.

use crate::config::typed::{Bytes, Whole, section};
use identity::Secret;
use std::time::Duration;

section! {
    /// The store, and the addresses of what is in it.
    Large = "large." {
        threshold: Bytes = "64KiB",
            "An event whose name, arguments and attachments have more bytes is large: `namespaces.NAME.large` says what becomes of it.";
        folder: Option<String> = "",
            "Folder of the bodies, relative to this file. With `bucket`, uploads wait there on their way.";
        folder_max: Bytes = "10GiB",
            "Bytes that the folder may hold. What finds no room is refused.";
        bucket: Option<String> = "",
            "Bucket that speaks S3, in place of the folder. Several nodes need one, or a folder that all of them have.";
        prefix: Option<String> = "",
            "Beginning of the names of all bodies in the bucket.";
        endpoint: Option<String> = "",
            "URL of the service; unset means Amazon's.";
        region: String = "us-east-1",
            "Its region.";
        access_key: Option<String> = "",
            "Access key id for the bucket.";
        secret_key: Option<Secret> = "",
            "Its secret. Better placed in the environment (`SOCKEYE__LARGE__SECRET_KEY`).";
        secret: Option<Secret> = "",
            "Signs the addresses of bodies: 32 random characters or more, the same on all nodes. Unset: a new one at each start, for a node that is alone.";
        public_url: Option<String> = "",
            "Beginning of the addresses, such as `https://files.example.com`: another origin that leads to this port. Unset: addresses are paths.";
        url_lifetime: Duration = "10m",
            "How long an address is good. A reference in a room's history is of no use after it.";
        keep: Duration = "1h",
            "Older bodies are removed.";
        store_timeout: Duration = "5s",
            "How long each request to the store may take. Then the publisher is told.";
        idle_timeout: Duration = "15s",
            "A client that neither sends nor takes anything of a transfer for so long is gone.";
        transfer_timeout: Duration = "10m",
            "How long one transfer may take.";
        bytes_per_second: Bytes = "64MiB",
            "Bytes that all transfers of this node together move in a second, in and out: beside more, chat is late.";
        transfers_max: Whole<1, 16_384> = "512",
            "Downloads and uploads at once; more are told to come again. Each takes two descriptors of those that clients have.";
        transfers_per_address: Whole<1, 16_384> = "128",
            "Of one address (IPv6: one /64).";
    }
}

section! {
    /// What clients may upload.
    Uploads = "large." {
        uploads: bool = "false",
            "Clients with a token may `POST /upload` to rooms of namespaces with `large = \"store\"`.";
        upload_max: Bytes = "100MiB",
            "Bytes of one upload.";
        uploads_per_user: Whole<1, 1_024> = "4",
            "Uploads of one user at once.";
        uploads_per_address: Whole<1, 16_384> = "32",
            "Uploads of one address (IPv6: one /64) at once.";
        upload_bytes_per_user: Bytes = "1GiB",
            "Bytes that one user may upload in `upload_window`. An upload counts as 64 KiB at least.";
        upload_bytes_per_address: Bytes = "10GiB",
            "The same for one address.";
        upload_window: Duration = "1h",
            "The time in which they are counted.";
    }
}
