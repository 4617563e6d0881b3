//! The tests are in `tests`; the manifest makes the drift.
