#include "worker_runtime/group/checks.hpp"

#include <ddprun/error.hpp>

#include <string>

namespace ddprun {

namespace {

struct Check {
  const Operation& operation;
  int size;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Errc::usage, std::string(to_string(operation.collective)) + ": " + what);
  }

  void buffer(const char* name, const Buffer& buffer) const {
    if (buffer.device.kind != Device::Kind::cpu) {
      refuse(std::string(name) + " is on CUDA device " + std::to_string(buffer.device.index) +
             ", and this backend moves CPU memory only");
    }
    if (buffer.data == nullptr && buffer.elements > 0) {
      refuse(std::string(name) + " of " + std::to_string(buffer.elements) +
             " elements has no memory (data is null)");
    }
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

  void is_multiple(const char* large_name, const Buffer& large, const char* small_name,
                   const Buffer& small) const {
    if (large.elements == small.elements * static_cast<std::size_t>(size)) return;
    refuse(std::string(large_name) + " has " + std::to_string(large.elements) + " elements; " +
           std::to_string(size) + " times the " + std::to_string(small.elements) + " of " +
           small_name + " are needed");
  }
};

}  // namespace

void check_operation(const Operation& operation, int rank, int size) {
  const Check check{operation, size};
  const bool is_root = rank == operation.peer;
  check.buffer("input", operation.input);
  check.buffer("output", operation.output);
  switch (operation.collective) {
    case Collective::broadcast:
    case Collective::reduce:
      return check.peer("root");
    case Collective::all_gather:
      check.types();
      return check.is_multiple("output", operation.output, "input", operation.input);
    case Collective::reduce_scatter:
      check.types();
      return check.is_multiple("input", operation.input, "output", operation.output);
    case Collective::gather:
      check.peer("root");
      if (!is_root) return;
      check.types();
      return check.is_multiple("output", operation.output, "input", operation.input);
    case Collective::scatter:
      check.peer("root");
      if (!is_root) return;
      check.types();
      return check.is_multiple("input", operation.input, "output", operation.output);
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
