//! Placeholder of a room under construction.
