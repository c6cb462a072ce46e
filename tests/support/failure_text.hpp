// Error texts of ranks whose calls fail.
#pragma once

#include <ddprun/error.hpp>
#include <ddprun/process_group.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace ddprun::test {

inline std::string describe_failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const PeerFailed& failure) {
    return "peer " + std::to_string(failure.rank()) + ": " + failure.what();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no failure";
}

/// Returns the error of short waits for `work`, which does not end, once it contains `text`: the
/// group's thread must have begun it. After a minute returns any error.
inline std::string error_containing(const std::string& text, const Work& work) {
  const auto limit = Deadline::after(std::chrono::minutes(1));
  std::string message;
  do {
    message = describe_failure([&] { work.wait(Deadline::after(std::chrono::milliseconds(10))); });
  } while (message.find(text) == std::string::npos && !limit.passed());
  return message;
}

}  // namespace ddprun::test
