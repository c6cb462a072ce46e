// Sleeps as PyTorch does between two attempts to connect to a store. In a shared library of its
// own.
#pragma once

namespace ddprun::test {

/// Sleeps for an hour; false if a signal has ended that.
bool sleep_in_libtorch();

}  // namespace ddprun::test
