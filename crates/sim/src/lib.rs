//! What would happen: an in-memory API server, scheduler, kubelet and clock.
