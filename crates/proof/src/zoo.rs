//! The bug zoo: published bugs of other controllers, put back one at a time. A proof that does not
//! find them proves nothing.

mod cases;
mod daemons;
mod edits;
mod ends;
mod expectations;
mod family;
mod hunt;
mod interlock;
mod jobs;
mod mutant;
mod names;
mod order;
mod outcomes;
mod run_sight;
mod runs;
mod sight;
mod stops;
mod taken;
mod tenants;
mod wires;

pub use self::hunt::{Caught, Zoo};
pub use self::mutant::Mutant;

/// All of them, those apart that only a tenant can use.
pub fn all() -> Vec<Mutant> {
    [
        names::mutants(),
        order::mutants(),
        outcomes::mutants(),
        stops::mutants(),
        taken::mutants(),
        ends::mutants(),
        family::mutants(),
        expectations::mutants(),
        wires::mutants(),
        edits::mutants(),
        runs::mutants(),
        jobs::mutants(),
        daemons::mutants(),
    ]
    .concat()
}

/// Those that only a tenant can use.
pub fn of_tenants() -> Vec<Mutant> {
    tenants::mutants()
}
