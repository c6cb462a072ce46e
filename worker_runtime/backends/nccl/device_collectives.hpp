// NCCL collectives on buffers of one CUDA device. They run in order on an internal stream, each
// after the caller's stream has reached its mark. Messages and barriers are not supported.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/nccl/captured_calls.hpp"
#include "worker_runtime/backends/nccl/communicator.hpp"
#include "worker_runtime/backends/nccl/libraries.hpp"
#include "worker_runtime/backends/nccl/registered_memory.hpp"
#include "worker_runtime/cuda/device_objects.hpp"
#include <ddprun/deadline.hpp>

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace ddprun::nccl {

struct DevicePlace {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  std::string group;
};

class DeviceCollectives {
 public:
  /// `look` throws if the group has failed; it is called during waits. Blocks while CUDA
  /// initialises the device.
  DeviceCollectives(const Libraries& libraries, DevicePlace place, std::function<void()> look);
  DeviceCollectives(const DeviceCollectives&) = delete;
  DeviceCollectives& operator=(const DeviceCollectives&) = delete;
  ~DeviceCollectives();
  /// Deletes it, with the device set that its members belong to.
  static void destroy(DeviceCollectives* collectives) noexcept;

  // Any thread:

  /// Like DeviceQueue::capture_of() and hold_captured().
  std::uint64_t capture_of(void* stream) const;
  void hold_captured(void* stream, std::uint64_t capture, std::uint64_t call);

  /// Like DeviceQueue::mark().
  void* mark(void* stream);
  /// Like DeviceQueue::hold().
  void hold(void* stream, std::uint64_t launches);
  /// Like DeviceQueue::await().
  void await(void* mark, Deadline deadline);
  /// Like RegisteredMemory::make(), after all ranks have connected. The result may outlive this
  /// object.
  std::unique_ptr<RegisteredMemory> allocate(std::size_t bytes);
  /// Makes pending collectives fail.
  void abort(const std::string& reason) noexcept;

  // One call at a time:

  void connect(const ncclUniqueId& id, Deadline deadline);

  /// Like DeviceQueue::launch(), ended(), capture() and watch(). REQUIRES: connected.
  void launch(const Operation& operation, Deadline deadline);
  std::uint64_t ended();
  std::uint64_t capture(const Operation& operation, void* stream, Deadline deadline);
  void watch();

  /// Ends after the last collective, on all ranks.
  void finish() noexcept;

 private:
  /// A launched collective.
  struct Flight {
    Operation operation;
    Deadline::Duration limit;  ///< from the time when it can start
    cuda::Event* mark;
    cuda::Event* ended;
    std::optional<Deadline> deadline = {};  ///< set when it can start
  };

  cuda::OnDevice here() const { return {*libraries_.cuda, place_.device}; }
  void start(const Operation& operation, cudaStream_t stream, const Watch& watch);
  void reduce(const Operation& operation, cudaStream_t stream, const Watch& watch);
  void exchange(Operation operation, cudaStream_t stream, const Watch& watch);
  void copy_on_device(const void* from, void* to, std::size_t bytes, cudaStream_t stream);
  void require_capturable(const Operation& operation, std::uint64_t capture) const;
  void check_first();
  [[noreturn]] void fail();
  std::exception_ptr with_rank(const std::exception_ptr& failure) noexcept;
  void await_flights(const Watch& watch);
  void end_communicator() noexcept;
  void drain(Deadline::Duration limit) noexcept;
  Watch watch_until(Deadline deadline);
  void look();

  const Libraries libraries_;
  const DevicePlace place_;
  const std::function<void()> look_;
  cuda::Stream stream_;
  CapturedCalls captured_;
  cuda::EventPool events_;
  cuda::Scratch scratch_;
  const std::shared_ptr<Communicator> communicator_;  ///< shared with registered memory
  Alarm alarm_;                                       ///< signalled by an abort
  std::mutex mutex_;                                  ///< guards the members below
  std::exception_ptr failure_;  ///< set only by the thread that runs operations
  std::thread ending_;          ///< ends the communicator after a failure
  std::deque<Flight> flights_;
  std::uint64_t ended_ = 0;
  std::string abort_reason_;
};

}  // namespace ddprun::nccl
