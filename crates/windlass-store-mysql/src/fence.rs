//! Fences: the server's own counter of rows. It counts on whether or not what it has counted stays, so that nobody waits for anybody
//! and nothing is kept.

use windlass_core::fence::Fence;
use windlass_core::port::PortError;

use crate::cell::{Answers, one};
use crate::text::Script;

/// Draws `n`, at least one, within a transaction; the answer is the first, and the others follow it.
pub(crate) fn draw(script: &mut Script, n: usize) {
    count(script, n);
    script.ask("SELECT @fence");
}

/// Draws `n`, at least one, within a transaction; `@fence` is the first.
pub(crate) fn count(script: &mut Script, n: usize) {
    let rows = vec!["(NULL)"; n.max(1)].join(",");
    script.say("SAVEPOINT before_fence");
    script.say(&format!("INSERT INTO fence_counter (fence) VALUES {rows}"));
    script.say("SET @fence = LAST_INSERT_ID()");
    script.say("ROLLBACK TO SAVEPOINT before_fence");
}

/// Reads what was drawn.
pub(crate) fn drawn(answers: &mut Answers) -> Result<Fence, PortError> {
    one(&answers.next()?)?.parse().map(Fence)
}
