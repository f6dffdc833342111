//! The history of the store, judged. By its name this is the last test, and what all others have done is in it.

use carillon_oracle::Assumptions;
use carillon_tests::proof::assert_no_violation;
use jiff::SignedDuration;

use crate::lab::alone;

#[test]
fn no_revision_of_the_store_breaks_a_rule() {
    let lab = alone();
    let assumptions = Assumptions {
        late_requests: true,
        // A pod may end while a status that counts it is on its way.
        lag: SignedDuration::from_secs(5),
        may_stall: true,
        ..Assumptions::default()
    };
    assert_no_violation(&lab.cluster, &assumptions);
}
