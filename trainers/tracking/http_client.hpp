// HTTP requests to one server, each on a connection of its own: they are few, and a connection that
// is used once cannot be found broken. Blocks at most until the deadline, except for the resolver
// of the C library, which nothing can interrupt.
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
  unsigned status = 0;  ///< 0: there is none
  std::string text;     ///< the body, or why there is none
};

/// Of an answer. MLflow's are some KB.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{8} << 20;

class HttpClient {
 public:
  /// `authorization` is the value of the header; empty: none.
  HttpClient(ServerAddress server, std::string authorization);

  /// One at a time.
  HttpAnswer exchange(const HttpRequest& request, ddprun::Deadline deadline);

  /// Ends the exchange under way, which returns without an answer, and all later ones. Any thread.
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
