//! Code that several commands share: arguments, the lookup of items and files, and text about them.
#![forbid(unsafe_code)]

pub mod args;
pub mod ask;
pub mod copies;
pub mod duration;
pub mod events;
pub mod evidence;
pub mod exposure;
pub mod figures;
pub mod finding;
pub mod json;
pub mod liveness;
pub mod lookup;
pub mod page_failure;
pub mod pages;
pub mod sarif;
pub mod since;
