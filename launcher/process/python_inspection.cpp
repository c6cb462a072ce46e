#include "launcher/process/python_inspection.hpp"

#include "launcher/stacks/python_answer.hpp"
#include "rendezvous/base/with_deadline.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <sys/socket.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using Socket = asio::local::stream_protocol::socket;

/// Returns true if the process listened on the socket's other end.
bool belongs_to(Socket& socket, pid_t pid) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.pid == pid;
}

asio::awaitable<void> read_answer(Socket& socket, pid_t pid, const std::string& name,
                                  std::optional<std::string>& text) {
  boost::system::error_code error;
  // The name is in the kernel's abstract namespace, without a file.
  co_await socket.async_connect(std::string(1, '\0') + name,
                                asio::redirect_error(asio::use_awaitable, error));
  if (error || !belongs_to(socket, pid)) co_return;
  text.emplace();
  std::array<char, 16384> part{};
  while (text->size() < kPythonAnswerBytesMax) {
    const auto bytes = co_await socket.async_read_some(
        asio::buffer(part), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    text->append(part.data(), std::min(bytes, kPythonAnswerBytesMax - text->size()));
  }
}

}  // namespace

asio::awaitable<std::optional<std::string>> request_python_answer(asio::any_io_executor executor,
                                                                  pid_t pid,
                                                                  std::string socket_name,
                                                                  Deadline deadline) {
  std::optional<std::string> text;
  Socket socket(executor);
  auto reading = read_answer(socket, pid, socket_name, text);
  co_await with_deadline(std::move(reading), deadline);
  co_return text;
}

}  // namespace ddprun
