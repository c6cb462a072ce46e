// A TCP client that sends arbitrary bytes, for tests of the store with invalid input.
#pragma once

#include "rendezvous/wire/request.hpp"
#include <ddprun/store.hpp>

#include <string>
#include <string_view>

namespace ddprun::test {

class RawClient {
 public:
  explicit RawClient(const StoreEndpoint& endpoint);
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient();

  /// Sends all bytes; returns false if the peer has closed the connection.
  bool send(std::string_view bytes) const;

  /// Sends as many bytes as possible without blocking; returns their number.
  std::size_t send_some(std::string_view bytes) const;

  /// Receives exactly `count` bytes; fewer if the connection ends, or after 20 s.
  std::string receive(std::size_t count) const;

  /// Returns true if the server closes the connection within 20 s without sending more.
  bool is_closed_by_server() const;

  /// Returns true if neither bytes nor the end of the connection have arrived yet.
  bool is_open_and_silent() const;

 private:
  bool wait_readable(int milliseconds) const;

  int fd_ = -1;
};

// Bytes sent by clients of the store.

/// First bytes of a connection in PyTorch's current dialect.
std::string store_greeting();

/// A request in that dialect, after the greeting.
std::string store_request(const wire::Request& request);

}  // namespace ddprun::test
