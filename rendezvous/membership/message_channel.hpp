// Byte transport of one connection between an agent and the coordinator. Sends without waiting.
// Runs on the executor's single thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// Maximum unsent bytes: a few of the largest messages. A peer that falls further behind does not
/// read at all.
inline constexpr std::size_t kUnsentBytesMax = std::size_t{16} << 20;

class MessageChannel {
 public:
  /// Takes ownership of a connected, non-blocking TCP socket.
  MessageChannel(boost::asio::any_io_executor executor, int fd);
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;
  ~MessageChannel();  ///< calls close()

  /// Sends or queues the bytes. If the connection has ended or kUnsentBytesMax is exceeded, closes
  /// it; receive() then returns empty.
  void send(std::string_view bytes);

  /// Returns the next bytes; empty once the connection has ended. Only one call may be pending.
  boost::asio::awaitable<std::string> receive();

  /// Ends receive(). Queued bytes are sent for at most one second.
  void close();

  bool is_open() const;

  /// Reason why the connection ended: "its connection was closed", ...
  const std::string& end_reason() const;

  /// Addresses of the two ends, without ports.
  const std::string& local_address() const;
  const std::string& peer_address() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< shared with the coroutine that sends queued bytes
};

}  // namespace ddprun::membership
