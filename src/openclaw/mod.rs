//! OpenClaw, the first agent framework that memfw guards: where its files lie and what it has on
//! record about them.
//!
//! Only this room knows OpenClaw's formats. It reads OpenClaw's databases without holding a read
//! transaction, and writes only one value: the hash of a file that memfw edited, where OpenClaw's
//! own record was about exactly the bytes that memfw edited ([`ledger`]).

mod attribute;
mod database;
mod file;
pub mod gateway;
pub mod index;
pub mod injection;
pub mod inspect;
pub mod install_policy;
pub mod installation;
pub mod layout;
pub mod ledger;
pub mod ledger_row;
pub mod observed;
pub mod plugin_settings;
pub mod settings;
pub mod skills;
pub mod transcript;

pub use installation::{Agent, Installation};
pub use layout::{Layout, OpenClawEnv};
pub use ledger::OpenClawRecords;
pub use ledger_row::LedgerRow;
