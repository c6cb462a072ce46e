#include "tests/support/test_store.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace ddprun::test {

namespace {

StoreServerOptions with_log(StoreServerOptions options, std::vector<std::string>& warnings) {
  options.log = [&warnings](LogLevel, std::string_view line) { warnings.emplace_back(line); };
  return options;
}

}  // namespace

struct TestStore::Impl {
  explicit Impl(StoreServerOptions options)
      : server(context.get_executor(), with_log(std::move(options), warnings)),
        work(context.get_executor()) {
    server.start();
    thread = std::thread([this] { context.run(); });
  }

  std::vector<std::string> warnings;  ///< used by the server's thread only
  boost::asio::io_context context;
  StoreServer server;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  std::thread thread;
};

TestStore::TestStore(StoreLimits limits, std::uint16_t port)
    : TestStore(StoreServerOptions{.port = port, .limits = limits}) {}

TestStore::TestStore(StoreServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

TestStore::~TestStore() {
  run([](StoreServer& server) { server.stop(); });
  impl_->work.reset();
  // Returns only when all coroutines of the server have ended: also a test of stop().
  impl_->thread.join();
}

const StoreEndpoint& TestStore::endpoint() const {
  return impl_->server.endpoint();
}

Store TestStore::connect() const {
  return Store::connect(endpoint(), Deadline::after(std::chrono::seconds(20)));
}

void TestStore::run(const std::function<void(StoreServer&)>& action) {
  std::promise<void> done;
  boost::asio::post(impl_->context, [&] {
    action(impl_->server);
    done.set_value();
  });
  done.get_future().wait();
}

StoreServerStats TestStore::stats() {
  StoreServerStats stats;
  run([&](StoreServer& server) { stats = server.stats(); });
  return stats;
}

bool TestStore::wait_until(const std::function<bool(const StoreServerStats&)>& condition) {
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  while (!condition(stats())) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

std::vector<std::string> TestStore::warnings() {
  std::vector<std::string> copy;
  run([&](StoreServer&) { copy = impl_->warnings; });
  return copy;
}

}  // namespace ddprun::test
