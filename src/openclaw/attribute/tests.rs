//! Attribution on real records and on what can be done to them.
#![forbid(unsafe_code)]

mod at_write;
mod calls;
mod hostile;
mod laundered;
mod lists;
mod mutations;
mod paraphrases;
mod passed_on;
mod promoted;
mod recorded;
mod rivals;
mod store;
mod turns;
mod upwards;
