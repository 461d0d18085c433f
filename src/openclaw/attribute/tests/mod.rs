//! Attribution on real records and on what can be done to them.
#![forbid(unsafe_code)]

mod recorded;
mod store;
