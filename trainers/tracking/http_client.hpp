// Sends HTTP requests to one server, each on a new connection: requests are few, and an idle
// connection might have been closed. Blocks at most until the deadline, except in the resolver of
// the C library, which cannot be interrupted.
#pragma once

#include "trainers/tracking/server_address.hpp"
#include <ddprun/deadline.hpp>

#include <cstddef>
#include <mutex>
#include <string>

namespace trainer {

struct HttpRequest {
  bool is_post = true;
  std::string path;
  std::string body;  ///< JSON

  bool operator==(const HttpRequest&) const = default;
};

struct HttpAnswer {
  unsigned status = 0;  ///< HTTP status; 0: no answer
  std::string text;     ///< the body, or the reason why there is no answer
};

/// Maximum size of an answer. MLflow's answers have a few KB.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{8} << 20;

class HttpClient {
 public:
  /// `authorization`: value of the Authorization header; empty: none.
  HttpClient(ServerAddress server, std::string authorization);

  /// Sends a request and waits for the answer. For one thread at a time. Does not throw.
  HttpAnswer exchange(const HttpRequest& request, ddprun::Deadline deadline);

  /// Makes the current and all later calls of exchange() return without an answer. Thread-safe.
  void interrupt();

 private:
  struct State;
  class Reachable;

  const ServerAddress server_;
  const std::string authorization_;
  std::mutex mutex_;
  State* current_ = nullptr;  ///< while the exchange waits for the server
  bool is_interrupted_ = false;
};

}  // namespace trainer
