#include "worker_runtime/group/checks.hpp"

#include <ddprun/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddprun {

namespace {

// Below the largest address space of a process, of 2^56 bytes, so that neither the bytes of a
// buffer nor sums of addresses and sizes wrap around.
constexpr std::size_t kBufferBytesMax = (std::size_t{1} << 56) - 1;

std::uintptr_t address(const Buffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data);
}

struct Check {
  const Operation& operation;
  int size;
  const Device* device;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Errc::usage, std::string(to_string(operation.collective)) + ": " + what);
  }

  /// Throws for invalid enumerators, since other code relies on valid ones.
  void known(const char* name, const Buffer& buffer) const {
    if (size_of(buffer.type) != 0) return;
    refuse(std::string(name) + ": invalid data type " +
           std::to_string(static_cast<int>(buffer.type)) + " (valid: 0 to " +
           std::to_string(static_cast<int>(DataType::uint8)) + ")");
  }

  void known_reduction() const {
    if (operation.op <= ReduceOp::max) return;
    refuse("invalid reduction " + std::to_string(static_cast<int>(operation.op)) +
           " (valid: 0 to " + std::to_string(static_cast<int>(ReduceOp::max)) + ")");
  }

  void reachable(const char* name, const Buffer& buffer) const {
    const std::string there =
        std::string(name) + " is on CUDA device " + std::to_string(buffer.device.index);
    if (device == nullptr) refuse(there + "; this backend supports only host memory");
    if (buffer.device == *device) return;
    refuse(there + "; this rank uses device " + std::to_string(device->index) +
           " (index LOCAL_RANK in CUDA_VISIBLE_DEVICES)");
  }

  void buffer(const char* name, const Buffer& buffer) const {
    known(name, buffer);
    if (buffer.device.kind != Device::Kind::cpu) reachable(name, buffer);
    if (buffer.data == nullptr && buffer.elements > 0) {
      refuse(std::string(name) + " of " + std::to_string(buffer.elements) +
             " elements has no memory (data is null)");
    }
    if (buffer.elements > kBufferBytesMax / size_of(buffer.type)) {
      refuse(std::string(name) + " of " + std::to_string(buffer.elements) + " elements of " +
             to_string(buffer.type) + " is larger than any memory");
    }
    if (address(buffer) % size_of(buffer.type) != 0) {
      refuse(std::string(name) + " is not aligned to the " + std::to_string(size_of(buffer.type)) +
             " bytes of a " + to_string(buffer.type));
    }
  }

  /// Devices sum in the type of the buffer, in which integers may overflow.
  void average() const {
    const bool is_narrow =
        operation.input.type == DataType::int32 || operation.input.type == DataType::uint8;
    if (!is_narrow || !combines(operation.collective) || operation.op != ReduceOp::average) return;
    if (device_of(operation).kind == Device::Kind::cpu) return;
    refuse(std::string("average of ") + to_string(operation.input.type) +
           " on a device: the sum may overflow; use another type");
  }

  void place() const {
    const Buffer& input = operation.input;
    const Buffer& output = operation.output;
    if (input.elements == 0 || output.elements == 0 || input.device == output.device) return;
    refuse("input and output are not on the same device");
  }

  void peer(const char* name) const {
    if (operation.peer < 0 || operation.peer >= size) {
      refuse(std::string(name) + " " + std::to_string(operation.peer) + " is not within 0.." +
             std::to_string(size - 1));
    }
  }

  void types() const {
    if (operation.input.type == operation.output.type) return;
    refuse(std::string("input is ") + to_string(operation.input.type) + " but output is " +
           to_string(operation.output.type));
  }

  /// `large` has `size` parts of the size of `small`. The buffers are disjoint, or `small` is the
  /// part of `rank` in `large`.
  void parts(int rank, const char* large_name, const Buffer& large, const char* small_name,
             const Buffer& small) const {
    types();
    const auto count = static_cast<std::size_t>(size);
    if (large.elements / count != small.elements || large.elements % count != 0) {
      refuse(std::string(large_name) + " has " + std::to_string(large.elements) + " elements; " +
             std::to_string(size) + " times the " + std::to_string(small.elements) + " of " +
             small_name + " are needed");
    }
    const std::size_t own = static_cast<std::size_t>(rank) * small.bytes();
    if (overlap() && address(small) != address(large) + own)
      refuse("input and output overlap in more than the part of rank " + std::to_string(rank));
  }

  bool overlap() const {
    const Buffer& input = operation.input;
    const Buffer& output = operation.output;
    return address(input) < address(output) + output.bytes() &&
           address(output) < address(input) + input.bytes();
  }
};

}  // namespace

void check_operation(const Operation& operation, int rank, int size, const Device* device) {
  const Check check{operation, size, device};
  const bool is_root = rank == operation.peer;
  check.buffer("input", operation.input);
  check.buffer("output", operation.output);
  check.known_reduction();
  check.average();
  check.place();
  switch (operation.collective) {
    case Collective::broadcast:
    case Collective::reduce:
      return check.peer("root");
    case Collective::all_gather:
    case Collective::new_group:
      return check.parts(rank, "output", operation.output, "input", operation.input);
    case Collective::reduce_scatter:
      return check.parts(rank, "input", operation.input, "output", operation.output);
    case Collective::gather:
      check.peer("root");
      if (!is_root) return;
      return check.parts(rank, "output", operation.output, "input", operation.input);
    case Collective::scatter:
      check.peer("root");
      if (!is_root) return;
      return check.parts(rank, "input", operation.input, "output", operation.output);
    case Collective::all_to_all:
      check.types();
      if (operation.input.elements != operation.output.elements) {
        check.refuse("input has " + std::to_string(operation.input.elements) +
                     " elements but output " + std::to_string(operation.output.elements));
      }
      if (operation.input.elements % static_cast<std::size_t>(size) != 0) {
        check.refuse(std::to_string(operation.input.elements) +
                     " elements cannot be divided among " + std::to_string(size) + " ranks");
      }
      if (check.overlap() && operation.input.data != operation.output.data)
        check.refuse("input and output overlap but are not the same buffer");
      return;
    case Collective::send:
    case Collective::recv:
      return check.peer("rank");
    case Collective::all_reduce:
    case Collective::barrier:
      return;
  }
}

}  // namespace ddprun
