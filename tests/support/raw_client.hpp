// A TCP client that sends any bytes whatever, for tests of how the store treats rude peers.
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

  /// Sends all; false if the other side has closed the connection, which is no failure.
  bool send(std::string_view bytes) const;

  /// As much of the bytes as the connection takes without waiting; how many those were.
  std::size_t send_some(std::string_view bytes) const;

  /// Exactly `count` bytes; fewer if the connection ends, or after 20 s.
  std::string receive(std::size_t count) const;

  /// True if the server closes the connection within 20 s without sending anything more.
  bool is_closed_by_server() const;

  /// True if neither bytes nor the end of the connection have come by now.
  bool is_open_and_silent() const;

 private:
  bool wait_readable(int milliseconds) const;

  int fd_ = -1;
};

// What clients of the store send.

/// By which a connection begins in PyTorch's present dialect.
std::string store_greeting();

/// In that dialect, after the greeting.
std::string store_request(const wire::Request& request);

}  // namespace ddprun::test
