//! The forwarder, by its public door.
