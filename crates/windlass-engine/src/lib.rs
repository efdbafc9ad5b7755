//! The engine: plans carried out stage by stage, through the ports. [`run::attempt`] is the loop that
//! everything exists for; `command` is what people do, `query` what they ask, `stage` what a stage can
//! be. Rules are the core's; this crate has the I/O, the waiting and the wake-ups.

pub mod stage;
