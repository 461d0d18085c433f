//! What several commands need: arguments, items and files by the names that people type, and what is said
//! about them.
#![forbid(unsafe_code)]

pub mod args;
pub mod copies;
pub mod events;
pub mod evidence;
pub mod exposure;
pub mod figures;
pub mod finding;
pub mod lookup;
pub mod pages;
pub mod sarif;
