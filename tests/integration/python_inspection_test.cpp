// Requests to the thread of a preloaded worker, whose socket may be anything.
#include "launcher/process/python_inspection.hpp"

#include "launcher/stacks/python_answer.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace python_inspection_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

constexpr auto kLimit = 10s;

UniqueFd listen_at(const fs::path& path) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  return listener;
}

std::optional<std::string> request(const fs::path& folder, std::chrono::milliseconds limit = kLimit,
                                   pid_t pid = ::getpid()) {
  boost::asio::io_context context;
  std::optional<std::string> answer;
  auto asking = [&]() -> boost::asio::awaitable<void> {
    auto requesting = request_python_answer(context.get_executor(), pid, HeldPath(folder),
                                            Deadline::after(limit));
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
    const TemporaryFolder folder;
    const auto listener = listen_at(folder.path() / "python");
    CHECK(has_inspection(HeldPath(folder.path())));
    std::thread worker([&] { serve(listener.get(), "stacks\nend\n"); });
    CHECK(request(folder.path()) == "stacks\nend\n");
    worker.join();
    remove_inspection(HeldPath(folder.path()));
    CHECK_FALSE(has_inspection(HeldPath(folder.path())));
  }

  TEST_CASE("python inspection: a socket on which another process listens is not read") {
    const TemporaryFolder folder;
    const auto listener = listen_at(folder.path() / "python");
    std::thread other([&] { serve(listener.get(), "stacks\nend\n"); });
    CHECK_FALSE(request(folder.path(), kLimit, ::getppid()));
    other.join();
  }

  TEST_CASE("python inspection: only a socket is asked, and no longer than it listens") {
    const TemporaryFolder folder;
    const auto path = folder.path() / "python";
    CHECK_FALSE(has_inspection(HeldPath(folder.path())));
    CHECK_FALSE(request(folder.path()));
    std::ofstream(path) << "stacks\nend\n";
    CHECK_FALSE(has_inspection(HeldPath(folder.path())));
    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_FALSE(request(folder.path()));
    fs::remove(path);
    const auto elsewhere = listen_at(folder.path() / "elsewhere");
    fs::create_symlink("elsewhere", path);
    CHECK_FALSE(has_inspection(HeldPath(folder.path())));
    CHECK_FALSE(request(folder.path()));
    fs::remove(path);
    listen_at(path);  // and ends
    CHECK_FALSE(request(folder.path()));
  }

  TEST_CASE("python inspection: a worker that sends nothing costs the time limit") {
    const TemporaryFolder folder;
    const auto listener = listen_at(folder.path() / "python");
    CHECK(request(folder.path(), 100ms) == "");
  }

  TEST_CASE("python inspection: an answer without end is read to a limit") {
    const TemporaryFolder folder;
    const auto listener = listen_at(folder.path() / "python");
    std::thread worker([&] { serve(listener.get(), std::string(1000, 'x'), 1'000'000); });
    const auto answer = request(folder.path());
    worker.join();
    REQUIRE(answer);
    CHECK(answer->size() == kPythonAnswerBytesMax);
  }
}

}  // namespace python_inspection_test
