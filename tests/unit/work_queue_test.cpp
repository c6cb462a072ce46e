// Works of a group on their way to a fake device, which completes them on request.
#include "worker_runtime/group/work_queue.hpp"

#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace work_queue_test {

using namespace ddprun;

namespace {

constexpr Device kDevice{.kind = Device::Kind::cuda, .index = 0};

/// The test sets the number of completed works.
class ControlledDevice final : public DeviceQueue {
 public:
  const Device& device() const override { return kDevice; }
  void* mark(void*) override { return nullptr; }
  void launch(const Operation&, Deadline) override { ++launched; }
  std::uint64_t ended() override {
    ++asking;
    const std::lock_guard answering(silence);
    --asking;
    return completed;
  }
  std::uint64_t capture_of(void*) override { return 0; }
  std::uint64_t capture(const Operation&, void*, Deadline) override { return 0; }
  void watch() override {}
  void hold_captured(void*, std::uint64_t, std::uint64_t) override {}
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
  std::atomic<std::uint64_t> completed = 0;
  std::atomic<std::uint64_t> asking = 0;
  std::mutex silence;                    ///< calls meanwhile get no response
  std::atomic<std::uint64_t> begun = 0;  ///< works on host buffers that have begun
  std::atomic<std::uint64_t> run = 0;    ///< works on host buffers that have ended
  std::mutex barrier;                    ///< works on host buffers do not end meanwhile
};

class ControlledBackend final : public Backend {
 public:
  explicit ControlledBackend(ControlledDevice& device) : device_(device) {}

  void enter(Deadline) override {}
  void leave() noexcept override {}
  void run(const Operation&, Deadline) override {
    ++device_.begun;
    const std::lock_guard waiting(device_.barrier);
    ++device_.run;
  }
  std::shared_ptr<void> allocate(std::size_t) override { return nullptr; }
  std::string stall_reason() const override { return {}; }
  void abort(const std::string&) noexcept override {}
  DeviceQueue* device_queue() override { return &device_; }

 private:
  ControlledDevice& device_;
};

void await_count(const std::atomic<std::uint64_t>& counted, std::uint64_t count) {
  const auto deadline = Deadline::after(std::chrono::minutes(1));
  while (counted < count && !deadline.passed()) std::this_thread::yield();
  CHECK(counted >= count);
}

std::shared_ptr<WorkQueue> start_queue(ControlledDevice& device, const GroupOptions& options = {}) {
  auto queue = std::make_shared<WorkQueue>(std::make_unique<ControlledBackend>(device), 1, options,
                                           CallLog({.name = "default", .rank = 0, .size = 1}));
  queue->start(Deadline::after(std::chrono::minutes(1)));
  queue->wait_entered();
  return queue;
}

Operation sum_of(float& value, const Device& device) {
  const Buffer buffer{&value, 1, DataType::float32, device};
  return {.collective = Collective::all_reduce, .input = buffer, .output = buffer};
}

}  // namespace

TEST_SUITE("work queue") {
  TEST_CASE("work queue: a device has at most 1024 pending works") {
    ControlledDevice device;
    const auto queue = start_queue(device);
    float value = 0;
    const Operation operation = sum_of(value, kDevice);
    std::vector<Work> works;
    for (std::size_t i = 0; i < kLaunchedWorksMax + 100; ++i)
      works.push_back(queue->push(operation, nullptr));
    await_count(device.launched, kLaunchedWorksMax);
    CHECK(device.launched == kLaunchedWorksMax);
    CHECK_FALSE(works.front().is_done());
    device.completed = 10;
    await_count(device.launched, kLaunchedWorksMax + 10);
    CHECK(device.launched == kLaunchedWorksMax + 10);
    works[9].wait();
    CHECK_FALSE(works[10].is_done());
    device.completed = works.size();
    works.back().wait();
    CHECK(device.launched == works.size());
    queue->stop();
  }

  TEST_CASE("work queue: a work queued behind the one that its caller runs needs no other call") {
    using namespace std::chrono_literals;
    ControlledDevice device;
    GroupOptions options;
    options.has_calling_threads = true;
    const auto queue = start_queue(device, options);
    float value = 0;
    const Operation operation = sum_of(value, {});
    // The communication thread stops checking the queue within the longer times.
    for (const auto time : {0ms, 1ms, 5ms}) {
      CAPTURE(time.count());
      const auto begun = device.begun.load();
      const auto ended = device.run.load();
      std::unique_lock barrier(device.barrier);
      std::thread caller([&] { queue->push(operation, nullptr).wait(); });
      await_count(device.begun, begun + 1);
      (void)queue->push(operation, nullptr);
      const auto later = Deadline::after(time);
      while (!later.passed()) std::this_thread::yield();
      barrier.unlock();
      await_count(device.run, ended + 2);
      caller.join();
    }
    queue->stop();
  }

  TEST_CASE("work queue: an abort ends unstarted works even if the device does not respond") {
    ControlledDevice device;
    const auto queue = start_queue(device);
    float value = 0;
    const Work flying = queue->push(sum_of(value, kDevice), nullptr);
    {
      const std::lock_guard silence(device.silence);
      await_count(device.asking, 1);
      const Work queued = queue->push(sum_of(value, {}), nullptr);
      queue->abort("a test has it so", "rank 0");
      CHECK(queued.is_done());
      CHECK_FALSE(flying.is_done());
    }
    device.completed = 1;
    flying.wait();
    queue->stop();
  }
}

}  // namespace work_queue_test
