#include "tests/support/fake_cuda.hpp"

#include "tests/support/fake_capture.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::test {

namespace {

std::atomic<int> objects = 0;
std::atomic<int> strays = 0;
thread_local int current_device = 0;

/// State of a device, except for its streams.
struct FakeDevice {
  std::mutex mutex;
  std::map<void*, std::size_t> memory;  ///< with its size
  double seconds = 0;
};

FakeDevice& device_of(int index) {
  static std::array<FakeDevice, kFakeDevices> all;
  return all[static_cast<std::size_t>(index)];
}

/// Blocks while `fault` is that of the device.
void suffer(const std::atomic<int>& fault, int device) {
  while (fault == device) fault.wait(device);
}

/// Called before the work: a waiting thread reads the clock afterwards.
void take_time(int index) {
  FakeDevice& device = device_of(index);
  const std::lock_guard lock(device.mutex);
  device.seconds += cuda_faults().slow == index ? kFakeSlowness : 1;
}

/// Called after a work.
void forget(int index) {
  FakeDevice& device = device_of(index);
  const std::lock_guard lock(device.mutex);
  if (cuda_faults().forgetful != index || device.memory.empty()) return;
  const auto largest = std::max_element(
      device.memory.begin(), device.memory.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  static_cast<unsigned char*>(largest->first)[largest->second / 2] |= 1;
}

class FakeStream {
 public:
  explicit FakeStream(int device) : device_(device), thread_([this] { run(); }) {}
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  int device() const { return device_; }

  /// Completes pending work first.
  ~FakeStream() {
    give(nullptr);
    thread_.join();
  }

  void give(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    changed_.notify_one();
  }

 private:
  void run() {
    current_device = device_;
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !works_.empty(); });
      const auto work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      if (!work) return;
      suffer(cuda_faults().silent, device_);
      take_time(device_);
      work();
      forget(device_);
    }
  }

  const int device_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  std::thread thread_;
};

/// The position at which an event was recorded: a new one each time.
class Moment {
 public:
  void come() {
    const std::lock_guard lock(mutex_);
    has_come_ = true;
    changed_.notify_all();
  }
  bool has_come() {
    const std::lock_guard lock(mutex_);
    return has_come_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_come_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_come_ = false;
};

/// Recorded in a capture or outside.
struct FakeEvent {
  int device = current_device;
  std::shared_ptr<Moment> moment;
  std::shared_ptr<CapturedMoment> captured;
};

/// All of them, with the thread that created them.
struct Streams {
  std::mutex mutex;
  std::map<cudaStream_t, std::thread::id> made;
};

Streams& streams() {
  static Streams all;
  return all;
}

FakeStream& stream_of(cudaStream_t stream) {
  return *reinterpret_cast<FakeStream*>(stream);
}

FakeEvent& event_of(cudaEvent_t event) {
  return *reinterpret_cast<FakeEvent*>(event);
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  check_fake_device(event_of(event).device);
  event_of(event).captured = capture_record(stream);
  if (event_of(event).captured) return cudaSuccess;
  const auto moment = std::make_shared<Moment>();
  event_of(event).moment = moment;
  launch_on(stream, [moment] { moment->come(); });
  return cudaSuccess;
}

cudaError_t wait(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  check_fake_device(event_of(event).device);
  if (const auto done = capture_wait(stream, event_of(event).captured.get())) return *done;
  launch_on(stream, [moment = event_of(event).moment] { moment->wait(); });
  return cudaSuccess;
}

cudaError_t query(cudaEvent_t event) {
  check_fake_device(event_of(event).device);
  if (const auto error = check_unsafe_call(); error != cudaSuccess) return error;
  if (const auto error = query_captured(event_of(event).captured.get()); error != cudaSuccess)
    return error;
  return event_of(event).moment->has_come() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                 cudaStream_t stream) {
  launch_on(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t fill(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  launch_on(stream, [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}

cudaError_t synchronize(cudaStream_t stream) {
  if (const auto error = check_waiting_call(stream); error != cudaSuccess) return error;
  const auto moment = std::make_shared<Moment>();
  launch_on(stream, [moment] { moment->come(); });
  moment->wait();
  return cudaSuccess;
}

/// Waits for a rank, which is a thread here, since kernels of others may wait for it. Streams
/// destroyed meanwhile have completed their work.
cudaError_t synchronize_device() {
  if (const auto error = check_waiting_call(nullptr); error != cudaSuccess) return error;
  std::vector<std::shared_ptr<Moment>> moments;
  {
    const std::lock_guard lock(streams().mutex);
    for (const auto& [stream, maker] : streams().made) {
      if (maker != std::this_thread::get_id()) continue;
      const auto moment = moments.emplace_back(std::make_shared<Moment>());
      launch_on(stream, [moment] { moment->come(); });
    }
  }
  for (const auto& moment : moments) moment->wait();
  return cudaSuccess;
}

cudaError_t make_stream(cudaStream_t* stream, unsigned int flags) {
  suffer(cuda_faults().closed, current_device);
  *stream = reinterpret_cast<cudaStream_t>(new FakeStream(current_device));
  ++objects;
  note_stream(*stream, flags != cudaStreamNonBlocking);
  const std::lock_guard lock(streams().mutex);
  streams().made[*stream] = std::this_thread::get_id();
  return cudaSuccess;
}

cudaError_t destroy_stream(cudaStream_t stream) {
  check_fake_device(stream_of(stream).device());
  forget_stream(stream);
  {
    const std::lock_guard lock(streams().mutex);
    streams().made.erase(stream);
  }
  delete &stream_of(stream);
  --objects;
  return cudaSuccess;
}

cudaError_t make_event(cudaEvent_t* event, unsigned int) {
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent);
  ++objects;
  return cudaSuccess;
}

cudaError_t destroy_event(cudaEvent_t event) {
  check_fake_device(event_of(event).device);
  delete &event_of(event);
  --objects;
  return cudaSuccess;
}

cudaError_t fake_allocate(void** memory, std::size_t bytes) {
  if (const auto error = check_unsafe_call(); error != cudaSuccess) return error;
  *memory = std::malloc(bytes);
  ++objects;
  const std::lock_guard lock(device_of(current_device).mutex);
  device_of(current_device).memory[*memory] = bytes;
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t fake_free(void* memory) {
  if (const auto error = check_unsafe_call(); error != cudaSuccess) return error;
  if (memory != nullptr) --objects;
  for (int index = 0; index < kFakeDevices; ++index) {
    const std::lock_guard lock(device_of(index).mutex);
    if (device_of(index).memory.erase(memory) != 0) check_fake_device(index);
  }
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

const cuda::CudaCalls& fake_cuda() {
  static constexpr cuda::CudaCalls kCalls{
      .get_device_count =
          [](int* count) {
            *count = kFakeDevices;
            return cudaSuccess;
          },
      .set_device =
          [](int device) {
            if (device >= kFakeDevices) return cudaErrorInvalidDevice;
            current_device = device;
            return cudaSuccess;
          },
      .stream_create = make_stream,
      .stream_destroy = destroy_stream,
      .stream_wait_event = wait,
      .event_create = make_event,
      .event_destroy = destroy_event,
      .event_record = record,
      .event_query = query,
      .allocate = fake_allocate,
      .free = fake_free,
      .copy_async = copy,
      .get_last_error = [] { return cudaSuccess; },
      .error_string =
          [](cudaError_t error) {
            return error == cudaErrorInvalidDevice ? "invalid device ordinal"
                                                   : "an error of the fake";
          },
      .get_device =
          [](int* device) {
            *device = current_device;
            return cudaSuccess;
          },
      .memset_async = fill,
      .stream_synchronize = synchronize,
      .device_synchronize = synchronize_device,
      .get_properties =
          [](cudaDeviceProp* properties, int device) {
            *properties = {};
            std::strcpy(properties->name, "Fake");
            for (std::size_t i = 0; i < sizeof properties->uuid.bytes; ++i)
              properties->uuid.bytes[i] = static_cast<char>(0xa0 + device);
            return cudaSuccess;
          },
      .get_pci_bus_id =
          [](char* id, int length, int device) {
            std::snprintf(id, static_cast<std::size_t>(length), "0000:0%d:00.0", device);
            return cudaSuccess;
          },
      .get_capture_info = fake_capture_info,
      .exchange_capture_mode = fake_exchange_mode};
  return kCalls;
}

CudaFaults& cuda_faults() {
  static CudaFaults faults;
  return faults;
}

double fake_seconds(int device) {
  const std::lock_guard lock(device_of(device).mutex);
  return device_of(device).seconds;
}

int fake_cuda_objects() {
  return objects;
}

int fake_device() {
  return current_device;
}

void check_fake_device(int device) {
  if (current_device != device) ++strays;
}

int fake_strays() {
  return strays;
}

void launch_on(cudaStream_t stream, std::function<void()> work) {
  // Tests never use the default stream.
  if (stream == nullptr) return work();
  check_fake_device(stream_of(stream).device());
  if (capture_work(stream, work)) return;
  stream_of(stream).give(std::move(work));
}

}  // namespace ddprun::test
