//! What the fleet promises, by topic.

mod epochs;
mod evidence;
mod floor;
mod measures;
mod ring;
mod roles;
