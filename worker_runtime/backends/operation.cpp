#include "worker_runtime/backends/backend.hpp"

namespace ddprun {

const char* to_string(Collective collective) noexcept {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::reduce:
      return "reduce";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::send:
      return "send";
    case Collective::recv:
      return "recv";
    case Collective::barrier:
      return "barrier";
    case Collective::new_group:
      return "new_group";
  }
  return "unknown";
}

bool is_message(Collective collective) {
  return collective == Collective::send || collective == Collective::recv;
}

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

bool combines(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

bool has_elements(Collective collective) {
  return collective != Collective::barrier && collective != Collective::new_group;
}

DataType data_type(const Operation& operation) {
  return operation.collective == Collective::recv ? operation.output.type : operation.input.type;
}

std::size_t part_elements(const Operation& operation, std::size_t ranks) {
  switch (operation.collective) {
    case Collective::recv:
    case Collective::scatter:
    case Collective::reduce_scatter:
      return operation.output.elements;
    case Collective::all_to_all:
      return operation.input.elements / ranks;
    default:
      return operation.input.elements;
  }
}

Device device_of(const Operation& operation) {
  if (operation.input.elements > 0) return operation.input.device;
  return operation.output.elements > 0 ? operation.output.device : Device{};
}

std::string describe(const Operation& operation, std::size_t ranks) {
  const Collective collective = operation.collective;
  std::string text = to_string(collective);
  if (!has_elements(collective)) return text + "()";
  text += "(" + std::to_string(part_elements(operation, ranks)) + " x " +
          to_string(data_type(operation));
  if (combines(collective)) text += std::string(", ") + to_string(operation.op);
  if (has_root(collective)) text += ", root " + std::to_string(operation.peer);
  if (is_message(collective)) {
    text += ", rank " + std::to_string(operation.peer) + ", tag " + std::to_string(operation.tag);
  }
  return text + ")";
}

std::string describe_in(const std::string& group, const Operation& operation, std::size_t ranks) {
  std::string text = describe(operation, ranks);
  if (!is_message(operation.collective)) text += ", collective " + std::to_string(operation.number);
  return text + " of group \"" + group + "\"";
}

}  // namespace ddprun
