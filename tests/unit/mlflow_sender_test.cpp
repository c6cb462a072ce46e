#include "trainers/tracking/mlflow_sender.hpp"

#include "tests/support/free_port.hpp"
#include <ddprun/deadline.hpp>

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace mlflow_sender_test {

using ddprun::LogLevel;
using trainer::Backlog;
using trainer::MlflowSender;
using trainer::RunStatus;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kBlockedHost = "blocked.invalid";

/// An event that a thread waits for. Stays set.
class Milestone {
 public:
  void reach() {
    const std::lock_guard lock(mutex_);
    is_reached_ = true;
    changed_.notify_all();
  }
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_reached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
};

/// Beginning and end of the lookup of kBlockedHost.
Milestone g_look_up_begun;
Milestone g_look_up_released;

std::ptrdiff_t thread_count() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

trainer::RunDescription description() {
  return {.experiment = "", .tracking_id = "id", .run_id = "", .parameters = {}, .tags = {}};
}

}  // namespace

TEST_SUITE("MLflow sender") {
  TEST_CASE("MLflow sender: destruction does not wait for a blocked name lookup") {
    const auto before = thread_count();
    auto owned_by_log = std::make_shared<int>();
    const std::weak_ptr<int> watch = owned_by_log;
    {
      const MlflowSender sender(
          trainer::parse_server_address("http://" + std::string(kBlockedHost), "URI"), "",
          description(), Backlog(), [owned_by_log](LogLevel, std::string_view) {});
      owned_by_log.reset();
      g_look_up_begun.await();
    }
    CHECK(watch.expired());
    g_look_up_released.reach();
    const auto limit = ddprun::Deadline::after(1min);
    while (thread_count() > before) REQUIRE_FALSE(limit.passed());
  }

  TEST_CASE("MLflow sender: an exception in the thread is logged and ends only the sending") {
    const ddprun::test::FreePort port;
    const std::string uri = "http://127.0.0.1:" + std::to_string(port.number());
    Milestone has_warned;
    std::vector<std::string> lines;
    bool has_thrown = false;
    const auto log = [&](LogLevel, std::string_view line) {
      if (!std::exchange(has_thrown, true)) throw std::runtime_error("no memory");
      lines.emplace_back(line);
      has_warned.reach();
    };
    {
      MlflowSender sender(trainer::parse_server_address(uri, "URI"), "", description(), Backlog(),
                          log);
      has_warned.await();
      sender.push(Backlog::Kind::step, {.name = "loss", .value = 1, .step = 1});
      CHECK(sender.state().contains("points"));
      sender.finish(RunStatus::finished, 10s);
    }
    CHECK(lines == std::vector<std::string>{"MLflow at " + uri +
                                            ": no memory; the training continues without MLflow"});
  }
}

}  // namespace mlflow_sender_test

/// Replaces the C library's function, and calls it for all hosts but one.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  using namespace mlflow_sender_test;
  if (host != nullptr && host == kBlockedHost) {
    g_look_up_begun.reach();
    g_look_up_released.await();
    return EAI_AGAIN;
  }
  static const auto original =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return original(host, service, hints, found);
}
