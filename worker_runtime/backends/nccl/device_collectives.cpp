#include "worker_runtime/backends/nccl/device_collectives.hpp"

#include <ddprun/error.hpp>
#include <ddprun/peer_failed.hpp>

#include <chrono>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

namespace ddprun::nccl {

namespace {

/// Time for the group to detect the death that NCCL has detected.
constexpr std::chrono::seconds kRankTimeout{1};
/// Time for kernels to end after a failure, before it is reported. Not NCCL's time for its threads.
constexpr std::chrono::milliseconds kKernelsEnd{30};

ncclDataType_t type_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      return ncclFloat64;
    case DataType::float16:
      return ncclFloat16;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::int32:
      return ncclInt32;
    case DataType::int64:
      return ncclInt64;
    case DataType::uint8:
      break;
  }
  return ncclUint8;
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::average:
      return ncclAvg;
    case ReduceOp::product:
      return ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::sum:
      break;
  }
  return ncclSum;
}

/// Returns true for averages that are computed like the host's: the sum, divided with one rounding.
/// ncclAvg multiplies each input by the rounded 1/n instead, which is inexact and not offloaded to
/// NVLink switches. It remains for integers, which NCCL divides after the sum, and for float16,
/// whose sum may exceed its range.
bool is_divided_sum(const Operation& operation) {
  const DataType type = operation.input.type;
  return operation.op == ReduceOp::average &&
         (type == DataType::float32 || type == DataType::float64 || type == DataType::bfloat16);
}

Buffer part_of(Buffer whole, int rank, const DevicePlace& place) {
  const std::size_t elements = whole.elements / static_cast<std::size_t>(place.ranks);
  return whole.slice(static_cast<std::size_t>(rank) * elements, elements);
}

/// Returns the part that the rank at `place` sends to `rank`, if any.
std::optional<Buffer> sent_to(int rank, const Operation& operation, const DevicePlace& place) {
  if (operation.collective == Collective::all_to_all) return part_of(operation.input, rank, place);
  if (operation.collective == Collective::gather && rank == operation.peer) return operation.input;
  if (operation.collective == Collective::scatter && place.rank == operation.peer)
    return part_of(operation.input, rank, place);
  return std::nullopt;
}

std::optional<Buffer> got_from(int rank, const Operation& operation, const DevicePlace& place) {
  if (operation.collective == Collective::all_to_all) return part_of(operation.output, rank, place);
  if (operation.collective == Collective::scatter && rank == operation.peer)
    return operation.output;
  if (operation.collective == Collective::gather && place.rank == operation.peer)
    return part_of(operation.output, rank, place);
  return std::nullopt;
}

/// Returns true if received data would overwrite data that has not been sent.
bool needs_scratch(const Operation& operation) {
  return operation.collective == Collective::all_to_all &&
         operation.input.data == operation.output.data;
}

}  // namespace

DeviceCollectives::DeviceCollectives(const Libraries& libraries, DevicePlace place,
                                     std::function<void()> look)
    : libraries_(libraries),
      place_(std::move(place)),
      look_(std::move(look)),
      stream_(*libraries.cuda, place_.device),
      captured_(*libraries.cuda, place_.device),
      events_(*libraries.cuda),
      scratch_(*libraries.cuda),
      communicator_(std::make_shared<Communicator>(libraries, place_.device, place_.group)) {}

DeviceCollectives::~DeviceCollectives() {
  if (ending_.joinable()) {
    ending_.join();
  } else {
    communicator_->abort();
  }
}

void DeviceCollectives::destroy(DeviceCollectives* collectives) noexcept {
  const auto home = cuda::try_on_device(*collectives->libraries_.cuda, collectives->place_.device);
  delete collectives;
}

void DeviceCollectives::connect(const ncclUniqueId& id, Deadline deadline) {
  const auto home = here();
  communicator_->connect(id, place_.rank, place_.ranks, watch_until(deadline));
}

std::unique_ptr<RegisteredMemory> DeviceCollectives::allocate(std::size_t bytes) {
  {
    // After a failure the communicator exists until NCCL has ended it.
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }
  return RegisteredMemory::make(libraries_, place_.device, communicator_, bytes);
}

void* DeviceCollectives::mark(void* stream) {
  const auto home = here();
  cuda::Event& event = events_.take();
  event.record(static_cast<cudaStream_t>(stream));
  return &event;
}

void DeviceCollectives::launch(const Operation& operation, Deadline deadline) {
  if (failure_) std::rethrow_exception(failure_);
  const auto home = here();
  try {
    auto& mark = *static_cast<cuda::Event*>(operation.mark);
    cuda::check(*libraries_.cuda, libraries_.cuda->stream_wait_event(stream_.get(), mark.get(), 0),
                "cudaStreamWaitEvent");
    const auto limit = deadline.remaining();
    start(operation, stream_.get(), watch_until(deadline));
    cuda::Event& end = events_.take();
    end.record(stream_.get());
    const std::lock_guard lock(mutex_);
    flights_.push_back({operation, limit, &mark, &end});
  } catch (...) {
    fail();
  }
}

std::uint64_t DeviceCollectives::ended() {
  if (failure_) std::rethrow_exception(failure_);
  const auto home = here();
  try {
    while (!flights_.empty() && flights_.front().ended->has_happened()) {
      const std::lock_guard lock(mutex_);
      events_.give_back(*flights_.front().mark);
      events_.give_back(*flights_.front().ended);
      flights_.pop_front();
      ++ended_;
    }
    if (!flights_.empty()) check_first();
  } catch (...) {
    fail();
  }
  return ended_;
}

/// Must be called before any work is launched, since an error would invalidate the capture.
void DeviceCollectives::require_capturable(const Operation& operation,
                                           std::uint64_t capture) const {
  if (place_.ranks == 1) return;
  if (!communicator_->is_connected()) {
    throw Error(Errc::usage,
                "the group has no communicator yet, and none can be made in a capture (run a step "
                "or two without capture first)");
  }
  if (needs_scratch(operation)) {
    throw Error(Errc::usage,
                "in place it needs memory that a graph cannot keep (give it an output of its own)");
  }
  captured_.require_free(capture);
}

std::uint64_t DeviceCollectives::capture(const Operation& operation, void* stream,
                                         Deadline deadline) {
  if (failure_) std::rethrow_exception(failure_);
  const auto home = here();
  const std::uint64_t capture = capture_of(stream);
  require_capturable(operation, capture);
  try {
    communicator_->note_capture();
    captured_.begin(static_cast<cudaStream_t>(stream), capture);
    start(operation, captured_.stream(), watch_until(deadline));
    return captured_.end();
  } catch (...) {
    fail();
  }
}

std::uint64_t DeviceCollectives::capture_of(void* stream) const {
  const auto home = here();
  return cuda::capture_of(*libraries_.cuda, static_cast<cudaStream_t>(stream));
}

void DeviceCollectives::hold_captured(void* stream, std::uint64_t capture, std::uint64_t call) {
  const auto home = here();
  captured_.hold(static_cast<cudaStream_t>(stream), capture, call);
}

void DeviceCollectives::watch() {
  if (failure_) std::rethrow_exception(failure_);
  const auto home = here();
  try {
    if (communicator_->is_connected())
      communicator_->check([] { return std::string("a graph with collectives of the group"); });
    look();
  } catch (...) {
    fail();
  }
}

/// Throws if the first launched collective cannot end.
void DeviceCollectives::check_first() {
  Flight& first = flights_.front();
  const auto what = [&] {
    return describe(first.operation, static_cast<std::size_t>(place_.ranks));
  };
  if (communicator_->is_connected()) communicator_->check(what);
  look();
  if (!first.deadline && first.mark->has_happened()) first.deadline = Deadline::after(first.limit);
  if (first.deadline && first.deadline->passed())
    throw Error(Errc::timeout, what() + ": not done on the device " + first.deadline->describe());
}

/// Throws the current exception, from now on also from other calls. First ends the kernels of
/// collectives, which would otherwise occupy the device forever and access the caller's memory.
void DeviceCollectives::fail() {
  const auto failure = with_rank(std::current_exception());
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
  }
  // NCCL ends kernels within a millisecond, but its own threads after up to half a second.
  try {
    ending_ = std::thread([this] { end_communicator(); });
    drain(kKernelsEnd);
  } catch (const std::system_error&) {
    end_communicator();
  }
  std::rethrow_exception(failure);
}

void DeviceCollectives::end_communicator() noexcept {
  const auto home = cuda::try_on_device(*libraries_.cuda, place_.device);
  communicator_->abort();
  drain(kEndTimeout);
  const std::lock_guard lock(mutex_);
  flights_.clear();
}

/// Returns the group's failure instead of NCCL's, which does not name the rank. The group may
/// detect the death of a rank slightly later.
std::exception_ptr DeviceCollectives::with_rank(const std::exception_ptr& failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const PeerFailed& peer) {
    if (peer.rank() >= 0) return failure;
  } catch (...) {
    return failure;
  }
  try {
    nccl::await([] { return false; }, watch_until(Deadline::after(kRankTimeout)));
  } catch (...) {
    return std::current_exception();
  }
  return failure;
}

void DeviceCollectives::finish() noexcept {
  if (ending_.joinable()) return;
  const auto home = cuda::try_on_device(*libraries_.cuda, place_.device);
  communicator_->finish();
}

void DeviceCollectives::hold(void* stream, std::uint64_t launches) {
  const auto home = here();
  if (cuda::capture_of(*libraries_.cuda, static_cast<cudaStream_t>(stream)) != 0) {
    throw Error(Errc::usage,
                "a stream that is being captured is to wait for a call from before the capture "
                "(hold() it before cudaStreamBeginCapture())");
  }
  const std::lock_guard lock(mutex_);
  if (launches <= ended_ || launches - ended_ > flights_.size()) return;
  cudaEvent_t end = flights_[launches - ended_ - 1].ended->get();
  cuda::check(*libraries_.cuda,
              libraries_.cuda->stream_wait_event(static_cast<cudaStream_t>(stream), end, 0),
              "cudaStreamWaitEvent");
}

void DeviceCollectives::await(void* mark, Deadline deadline) {
  auto& event = *static_cast<cuda::Event*>(mark);
  const auto home = here();
  if (!nccl::await([&] { return event.has_happened(); }, watch_until(deadline)))
    throw Error(Errc::timeout, "the caller's stream had not reached it " + deadline.describe());
  events_.give_back(event);
  // The stream may have been released by an abort.
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void DeviceCollectives::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (abort_reason_.empty()) abort_reason_ = reason;
  }
  alarm_.ring();
}

Watch DeviceCollectives::watch_until(Deadline deadline) {
  return {deadline, alarm_, [this] { look(); }};
}

void DeviceCollectives::look() {
  {
    const std::lock_guard lock(mutex_);
    // This failure names the rank; that of the resulting abort does not.
    if (failure_) std::rethrow_exception(failure_);
    if (!abort_reason_.empty()) throw Error(Errc::closed, abort_reason_);
  }
  look_();
}

void DeviceCollectives::await_flights(const Watch& watching) {
  cuda::Event& all = events_.take();
  all.record(stream_.get());
  if (!nccl::await([&] { return all.has_happened(); }, watching)) {
    throw Error(Errc::timeout, "collectives before it had not ended on the device " +
                                   watching.deadline.describe());
  }
  events_.give_back(all);
}

/// Waits for the kernels of collectives.
void DeviceCollectives::drain(Deadline::Duration limit) noexcept {
  try {
    cuda::Event end(*libraries_.cuda);
    end.record(stream_.get());
    Alarm silence;
    nccl::await([&] { return end.has_happened(); }, {Deadline::after(limit), silence, [] {}});
  } catch (const std::exception&) {
    // The device has failed.
  }
}

void DeviceCollectives::start(const Operation& operation, cudaStream_t stream,
                              const Watch& watching) {
  const Buffer& input = operation.input;
  const Buffer& output = operation.output;
  // An average would be an additional pass over the memory.
  if (place_.ranks == 1) return copy_on_device(input.data, output.data, output.bytes(), stream);
  const auto turn = communicator_->take_turn();
  const NcclCalls& calls = libraries_.nccl();
  const auto settle = [&](ncclResult_t result) {
    communicator_->settle(result, to_string(operation.collective), watching);
  };
  switch (operation.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::reduce_scatter:
      return reduce(operation, stream, watching);
    case Collective::broadcast:
      return settle(calls.broadcast(input.data, output.data, input.elements, type_of(input.type),
                                    operation.peer, communicator_->get(), stream));
    case Collective::all_gather:
    case Collective::new_group:
      return settle(calls.all_gather(input.data, output.data, input.elements, type_of(input.type),
                                     communicator_->get(), stream));
    default:
      return exchange(operation, stream, watching);
  }
}

void DeviceCollectives::reduce(const Operation& operation, cudaStream_t stream,
                               const Watch& watching) {
  const Buffer& input = operation.input;
  const Buffer& output = operation.output;
  const NcclCalls& calls = libraries_.nccl();
  const auto type = type_of(input.type);
  const bool is_divided = is_divided_sum(operation);
  const auto op = is_divided ? ncclSum : op_of(operation.op);
  ncclResult_t result = ncclSuccess;
  if (operation.collective == Collective::all_reduce) {
    result = calls.all_reduce(input.data, output.data, input.elements, type, op,
                              communicator_->get(), stream);
  } else if (operation.collective == Collective::reduce) {
    result = calls.reduce(input.data, output.data, input.elements, type, op, operation.peer,
                          communicator_->get(), stream);
  } else {
    result = calls.reduce_scatter(input.data, output.data, output.elements, type, op,
                                  communicator_->get(), stream);
  }
  communicator_->settle(result, to_string(operation.collective), watching);
  const bool has_result =
      operation.collective != Collective::reduce || operation.peer == place_.rank;
  if (!is_divided || !has_result) return;
  cuda::check(
      *libraries_.cuda,
      libraries_.kernels->divide(output.data, output.elements, output.type, place_.ranks, stream),
      "dividing a sum of " + std::to_string(output.elements) + " elements");
}

/// gather, scatter and all_to_all: transfers all parts between ranks at once, and copies this
/// rank's own part if it is elsewhere.
void DeviceCollectives::exchange(Operation operation, cudaStream_t stream, const Watch& watching) {
  const NcclCalls& calls = libraries_.nccl();
  if (needs_scratch(operation)) {
    // Running collectives may use the old memory.
    if (!scratch_.has(operation.input.bytes())) await_flights(watching);
    void* const apart = scratch_.at_least(operation.input.bytes());
    copy_on_device(operation.input.data, apart, operation.input.bytes(), stream);
    operation.input.data = apart;
  }
  const auto own_sent = sent_to(place_.rank, operation, place_);
  const auto own_got = got_from(place_.rank, operation, place_);
  if (own_sent && own_got) copy_on_device(own_sent->data, own_got->data, own_sent->bytes(), stream);
  communicator_->settle(calls.group_start(), "ncclGroupStart", watching);
  for (int rank = 0; rank < place_.ranks; ++rank) {
    if (rank == place_.rank) continue;
    // Errors here are reported at the end of NCCL's group.
    if (const auto part = sent_to(rank, operation, place_)) {
      calls.send(part->data, part->elements, type_of(part->type), rank, communicator_->get(),
                 stream);
    }
    if (const auto part = got_from(rank, operation, place_)) {
      calls.recv(part->data, part->elements, type_of(part->type), rank, communicator_->get(),
                 stream);
    }
  }
  communicator_->settle(calls.group_end(), to_string(operation.collective), watching);
}

void DeviceCollectives::copy_on_device(const void* from, void* to, std::size_t bytes,
                                       cudaStream_t stream) {
  if (from == to || bytes == 0) return;
  cuda::check(*libraries_.cuda,
              libraries_.cuda->copy_async(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
              "cudaMemcpy of " + std::to_string(bytes) + " bytes");
}

}  // namespace ddprun::nccl
