//! As whom the operator acts.

use carillon_oracle::Request;

/// The user that the operator's requests come from.
pub const USER: &str = "system:serviceaccount:carillon:carillon";

/// Whether a value is one that the operator wrote.
pub fn ours(request: &Request) -> bool {
    request.user == USER
}
