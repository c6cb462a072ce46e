// Converts exceptions and deadlines to the plain data of the interface to modules, and back.
#pragma once

#include "worker_runtime/backends/module/module.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>
#include <ddprun/peer_failed.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>

namespace ddprun::module {

inline std::int64_t left_until(Deadline deadline) {
  if (deadline.is_never()) return kNever;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.remaining()).count();
}

inline Deadline deadline_of(std::int64_t left) {
  return left == kNever ? Deadline::never() : Deadline::after(std::chrono::nanoseconds(left));
}

inline void describe(Failure& failure, const std::exception& exception) noexcept {
  const std::size_t length = std::min(std::strlen(exception.what()), kTextBytesMax - 1);
  std::memcpy(failure.text, exception.what(), length);
  failure.text[length] = '\0';
}

/// Calls `body`. Returns false and sets `failure` if it throws.
template <typename Body>
bool attempt(Failure& failure, const Body& body) noexcept {
  try {
    body();
    return true;
  } catch (const PeerFailed& peer) {
    failure = {.code = peer.code(), .is_of_peer = true, .peer = peer.rank()};
    describe(failure, peer);
  } catch (const Error& error) {
    failure = {.code = error.code()};
    describe(failure, error);
  } catch (const std::exception& other) {
    failure = {.code = Errc::internal};
    describe(failure, other);
  }
  return false;
}

/// Rethrows the exception caught by attempt().
[[noreturn]] inline void raise(const Failure& failure) {
  if (failure.is_of_peer) throw PeerFailed(failure.peer, failure.text);
  throw Error(failure.code, failure.text);
}

}  // namespace ddprun::module
