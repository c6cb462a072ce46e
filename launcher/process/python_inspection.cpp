#include "launcher/process/python_inspection.hpp"

#include "launcher/stacks/python_answer.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/base/with_deadline.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using Socket = asio::local::stream_protocol::socket;

// As in preload_inspection.py.
constexpr const char* kSocketName = "python";

UniqueFd open_socket_file(const HeldPath& folder) {
  auto file = (folder / kSocketName).open(O_PATH | O_NOFOLLOW);
  struct stat status {};
  const bool is_socket =
      file.get() >= 0 && ::fstat(file.get(), &status) == 0 && S_ISSOCK(status.st_mode);
  return is_socket ? std::move(file) : UniqueFd();
}

/// Returns true if the process listened on the socket's other end: the worker could have replaced
/// the file by another socket of this user.
bool belongs_to(Socket& socket, pid_t pid) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.pid == pid;
}

asio::awaitable<void> read_answer(Socket& socket, pid_t pid, int file,
                                  std::optional<std::string>& text) {
  boost::system::error_code error;
  co_await socket.async_connect("/proc/self/fd/" + std::to_string(file),
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

bool has_inspection(const HeldPath& folder) {
  return open_socket_file(folder).get() >= 0;
}

asio::awaitable<std::optional<std::string>> request_python_answer(asio::any_io_executor executor,
                                                                  pid_t pid, HeldPath folder,
                                                                  Deadline deadline) {
  std::optional<std::string> text;
  const auto file = open_socket_file(folder);
  if (file.get() < 0) co_return text;
  Socket socket(executor);
  auto reading = read_answer(socket, pid, file.get(), text);
  co_await with_deadline(std::move(reading), deadline);
  co_return text;
}

void remove_inspection(const HeldPath& folder) noexcept {
  const auto opened = folder.open(O_PATH | O_DIRECTORY);
  if (opened.get() >= 0) ::unlinkat(opened.get(), kSocketName, 0);
}

}  // namespace ddprun
