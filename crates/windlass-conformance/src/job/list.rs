//! The one list of scenarios of jobs. From it come [`ALL`] and [`job_suite!`](crate::job_suite), which makes every
//! scenario a test of a store, in a module `jobs`:
//!
//! ```text
//! async fn make() -> MyJobHarness { … }
//! windlass_conformance::job_suite!(make);
//! ```

use super::harness::Scenario;

/// `$d` is a dollar sign: what comes out is a macro itself.
macro_rules! scenarios {
    ($d:tt $($theme:ident::{ $($name:ident),* $(,)? })*) => {
        /// Every scenario: its theme, its name, and how to run it.
        pub const ALL: &[(&str, &str, Scenario)] = &[
            $($((stringify!($theme), stringify!($name), |h| Box::pin(crate::job::scenario::$theme::$name(h))),)*)*
        ];

        /// One test per scenario, each on a new store that the given `async fn() -> impl JobHarness` makes.
        #[macro_export]
        macro_rules! job_suite {
            ($d make:ident) => {
                mod jobs {
                    $(
                        mod $theme {
                            $(
                                #[test]
                                fn $name() {
                                    $crate::job::harness::run(
                                        super::super::$d make,
                                        |h| Box::pin($crate::job::scenario::$theme::$name(h)),
                                    );
                                }
                            )*
                        }
                    )*
                }
            };
        }
    };
}

scenarios! { $
    submit::{
        a_submitted_job_is_read_back_as_it_was_given,
    }
}
