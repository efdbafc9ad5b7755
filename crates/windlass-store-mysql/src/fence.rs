//! Fences: the server's own counter of rows. It counts on whether or not a transaction is committed, so that nobody waits.

use windlass_core::fence::Fence;
use windlass_core::port::PortError;

use crate::cell::{Answers, one};
use crate::text::{Script, list};

/// Draws `n`, at least one; the answer is the first, and the others follow it.
pub(crate) fn draw(script: &mut Script, n: usize) {
    let rows = std::iter::repeat_n("(NULL)".to_owned(), n.max(1));
    script.say(&format!("INSERT INTO fence_counter (fence) VALUES {}", rows.collect::<Vec<_>>().join(",")));
    script.ask("SELECT LAST_INSERT_ID()");
}

/// Reads what was drawn, and takes its rows away with the rest of the transaction. One by one: the end of a range would be
/// somebody else's.
pub(crate) fn drawn(answers: &mut Answers, n: usize, script: &mut Script) -> Result<Fence, PortError> {
    let first: u64 = one(&answers.next()?)?.parse()?;
    let all = (0..n.max(1) as u64).map(|nth| first + nth);
    script.say(&format!("DELETE FROM fence_counter WHERE fence IN ({})", list(all)));
    Ok(Fence(first))
}
