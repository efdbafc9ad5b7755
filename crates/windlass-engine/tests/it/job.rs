//! Jobs as one instance sees them: waited for, worked on, and as stages. Time stands still unless somebody waits for it.

mod pace;
mod rounds;
mod stages;
mod waiting;
mod working;
mod yard;
