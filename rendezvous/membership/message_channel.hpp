// One connection between an agent and the coordinator: bytes out without waiting, bytes in as they
// come. Knows nothing of what they mean. Runs on the executor's one thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// Bytes that the other side has not taken: a few of the largest messages. Who falls behind by more
/// does not read at all.
inline constexpr std::size_t kUnsentBytesMax = std::size_t{16} << 20;

class MessageChannel {
 public:
  /// Takes over a connected, non-blocking TCP socket.
  MessageChannel(boost::asio::any_io_executor executor, int fd);
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;
  ~MessageChannel();  ///< as close()

  /// Sends as much as the connection takes now, and the rest when it takes more. A connection that
  /// is over, or whose other side has fallen behind too far, is closed: receive() then tells.
  void send(std::string_view bytes);

  /// The next bytes; empty once the connection has ended. One call at a time.
  boost::asio::awaitable<std::string> receive();

  /// Ends receive(). What was sent and has not gone out yet still goes, for at most a second.
  void close();

  bool is_open() const;

  /// Why it has ended: "its connection was closed", ...
  const std::string& end_reason() const;

  /// Addresses of the two ends, without ports.
  const std::string& local_address() const;
  const std::string& peer_address() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< shared with the coroutine that sends the rest
};

}  // namespace ddprun::membership
