//! `doctor`: each finding is provoked in a cluster with the chart, is found, and is gone again. docs/doctor.md names
//! these tests.

mod installation;
mod objects;
mod shadow;
mod ward;
