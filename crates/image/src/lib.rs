//! Container images without Docker: files become a layer, layers become an image, and an image is written as an
//! [OCI layout](layout) or as a [docker-archive](docker_archive).
//!
//! The same input gives the same bytes: no time, no user and no order of a directory comes in from outside.

mod blob;
pub mod docker_archive;
pub mod image;
pub mod layer;
pub mod layout;
pub mod platform;

pub use blob::{Blob, Digest};
pub use image::{Config, Image};
pub use layer::{Entry, Layer};
pub use platform::Platform;
