// Sleeps like PyTorch between two attempts to connect to a store. In a shared library of its own.
#pragma once

namespace ddprun::test {

/// Sleeps for an hour. Returns false if a signal interrupts the sleep.
bool sleep_in_libtorch();

}  // namespace ddprun::test
