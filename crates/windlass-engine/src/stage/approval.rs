//! A person's decision: here only the question is made.

use windlass_core::stage::Approval;

use super::template::Rendering;
use super::{Ended, Trouble};

pub(super) fn run(approval: &Approval, rendering: &Rendering<'_>) -> Result<Ended, Trouble> {
    Ok(Ended::ApprovalWanted(rendering.text("the message", &approval.message)?.into_owned()))
}
