// Requests to the thread of a preloaded worker, which may do anything with its socket.
#include "launcher/process/python_inspection.hpp"

#include "launcher/stacks/python_answer.hpp"
#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace python_inspection_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

constexpr auto kLimit = 10s;

/// A socket with a name of its own.
struct Listener {
  std::string name = "ddprun-test-" + hexadecimal(random_bytes(8));
  UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};

  Listener() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(fd.get(), 1) == 0);
  }
};

std::optional<std::string> request(const std::string& name,
                                   std::chrono::milliseconds limit = kLimit,
                                   pid_t pid = ::getpid()) {
  boost::asio::io_context context;
  std::optional<std::string> answer;
  auto asking = [&]() -> boost::asio::awaitable<void> {
    auto requesting =
        request_python_answer(context.get_executor(), pid, name, Deadline::after(limit));
    answer = co_await std::move(requesting);
  };
  boost::asio::co_spawn(context, asking, boost::asio::detached);
  context.run();
  return answer;
}

/// Sends the text to the first connection, `times` times or until it is closed.
void serve(int listener, const std::string& text, int times = 1) {
  const UniqueFd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  for (int i = 0; i < times; ++i) {
    if (::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return;
  }
}

}  // namespace

TEST_SUITE("python inspection") {
  TEST_CASE("python inspection: the answer of the worker's own socket is read to its end") {
    const Listener listener;
    std::thread worker([&] { serve(listener.fd.get(), "stacks\nend\n"); });
    CHECK(request(listener.name) == "stacks\nend\n");
    worker.join();
  }

  TEST_CASE("python inspection: a socket on which another process listens is not read") {
    const Listener listener;
    std::thread other([&] { serve(listener.fd.get(), "stacks\nend\n"); });
    CHECK_FALSE(request(listener.name, kLimit, ::getppid()));
    other.join();
  }

  TEST_CASE("python inspection: a worker that does not listen has no answer") {
    Listener listener;
    listener.fd = UniqueFd();
    CHECK_FALSE(request(listener.name));
  }

  TEST_CASE("python inspection: a worker that sends nothing costs the time limit") {
    const Listener listener;
    CHECK(request(listener.name, 100ms) == "");
  }

  TEST_CASE("python inspection: an answer without end is read to a limit") {
    const Listener listener;
    std::thread worker([&] { serve(listener.fd.get(), std::string(1000, 'x'), 1'000'000); });
    const auto answer = request(listener.name);
    worker.join();
    REQUIRE(answer);
    CHECK(answer->size() == kPythonAnswerBytesMax);
  }
}

}  // namespace python_inspection_test
