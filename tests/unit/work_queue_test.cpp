// The works of a group on their way to a device, with one that ends them when it is told to.
#include "worker_runtime/group/work_queue.hpp"

#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace ddprun;

namespace {

constexpr Device kDevice{.kind = Device::Kind::cuda, .index = 0};

/// As many works have ended as the test says.
class ToldDevice final : public DeviceQueue {
 public:
  const Device& device() const override { return kDevice; }
  void* mark(void*) override { return nullptr; }
  void launch(const Operation&, Deadline) override { ++launched; }
  std::uint64_t ended() override { return told; }
  void hold(void*, std::uint64_t) override {}
  std::shared_ptr<void> allocate(std::size_t) override { return nullptr; }
  std::shared_ptr<void> allocate_registered(std::size_t) override { return nullptr; }
  void convert(std::span<const DevicePiece>, DataType, DataType, double, void*) override {}
  void add(std::span<const DevicePiece>, DataType, void*) override {}
  void zero(void*, std::size_t, void*) override {}
  void order(void*, void*) override {}
  void await(void*, Deadline) override {}
  void copy(void*, const void*, std::size_t, Deadline) override {}

  std::atomic<std::uint64_t> launched = 0;
  std::atomic<std::uint64_t> told = 0;
};

class ToldBackend final : public Backend {
 public:
  explicit ToldBackend(ToldDevice& device) : device_(device) {}

  void enter(Deadline) override {}
  void leave() noexcept override {}
  void run(const Operation&, Deadline) override {}
  std::shared_ptr<void> allocate(std::size_t) override { return nullptr; }
  std::string hold_up() const override { return {}; }
  void abort(const std::string&) noexcept override {}
  DeviceQueue* device_queue() override { return &device_; }

 private:
  ToldDevice& device_;
};

void await_launches(const ToldDevice& device, std::uint64_t count) {
  const auto deadline = Deadline::after(std::chrono::minutes(1));
  while (device.launched < count && !deadline.passed()) std::this_thread::yield();
  CHECK(device.launched == count);
}

}  // namespace

TEST_SUITE("work queue") {
  TEST_CASE("a device has 1024 works at most, and gets the next when one has ended") {
    ToldDevice device;
    const auto queue =
        std::make_shared<WorkQueue>(std::make_unique<ToldBackend>(device), 1, GroupOptions{},
                                    CallLog({.name = "default", .rank = 0, .size = 1}));
    queue->start(Deadline::after(std::chrono::minutes(1)));
    queue->wait_entered();
    float value = 0;
    const Buffer buffer{&value, 1, DataType::float32, kDevice};
    const Operation operation{
        .collective = Collective::all_reduce, .input = buffer, .output = buffer};
    std::vector<Work> works;
    for (std::size_t i = 0; i < kFlyingWorksMax + 100; ++i)
      works.push_back(queue->push(operation, nullptr));
    await_launches(device, kFlyingWorksMax);
    CHECK_FALSE(works.front().is_done());
    device.told = 10;
    await_launches(device, kFlyingWorksMax + 10);
    works[9].wait();
    CHECK_FALSE(works[10].is_done());
    device.told = works.size();
    works.back().wait();
    CHECK(device.launched == works.size());
    queue->stop();
  }
}
