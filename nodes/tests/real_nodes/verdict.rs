//! The history of the store, judged. By its name this is the last test, and what all others have done is in it.

use carillon_oracle::Assumptions;
use carillon_tests::proof::assert_no_violation;

use crate::lab::alone;

#[test]
fn no_revision_of_the_store_breaks_a_rule() {
    let lab = alone();
    let assumptions = Assumptions {
        late_requests: true,
        may_stall: true,
        ..Assumptions::default()
    };
    assert_no_violation(&lab.cluster, &assumptions);
}
