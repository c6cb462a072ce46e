#include "worker_runtime/backends/host/shared_memory/call.hpp"

namespace ddprun::shared_memory {

namespace {

bool has_part_per_rank(Collective collective) {
  return collective == Collective::scatter || collective == Collective::all_to_all ||
         collective == Collective::reduce_scatter;
}

}  // namespace

Call::Call(const Operation& what, Deadline until, int ranks, std::uint64_t number)
    : operation(what),
      deadline(until),
      sequence(number),
      parts(has_part_per_rank(what.collective) ? static_cast<std::size_t>(ranks) : 1),
      part_elements(ddprun::part_elements(what, parts)),
      element_bytes(size_of(what.input.type)) {}

bool Call::contributes(int rank) const {
  const bool only_root =
      operation.collective == Collective::broadcast || operation.collective == Collective::scatter;
  return !only_root || rank == operation.peer;
}

bool Call::is_read_by_others(int rank) const {
  const bool ends_at_root =
      operation.collective == Collective::reduce || operation.collective == Collective::gather;
  return contributes(rank) && !(ends_at_root && rank == operation.peer);
}

CallHeader header_of(const Call& call) {
  const Operation& operation = call.operation;
  return {.sequence = call.sequence,
          .elements = call.part_elements,
          .input = 0,
          .peer = has_root(operation.collective) ? operation.peer : 0,
          .collective = operation.collective,
          .type = operation.input.type,
          .op = combines(operation.collective) ? operation.op : ReduceOp::sum,
          .reachable = 0};
}

std::uint64_t digest_of(const Call& call) {
  const CallHeader header = header_of(call);
  static_assert(kRanksMax <= 1 << 10 && kTinyBytes < 1 << 6);
  // the lower part suffices, since few collectives are in progress at a time
  std::uint64_t digest = header.sequence;
  digest = digest << 10 | static_cast<std::uint64_t>(header.peer);
  digest = digest << 6 | header.elements;
  digest = digest << 4 | static_cast<std::uint64_t>(header.collective);
  digest = digest << 4 | static_cast<std::uint64_t>(header.type);
  return digest << 4 | static_cast<std::uint64_t>(header.op);
}

bool is_same_call(const CallHeader& a, const CallHeader& b) {
  return a.sequence == b.sequence && a.elements == b.elements && a.peer == b.peer &&
         a.collective == b.collective && a.type == b.type && a.op == b.op;
}

std::string describe(const CallHeader& header) {
  std::string text = to_string(header.collective);
  if (!has_elements(header.collective)) return text + "()";
  text += "(" + std::to_string(header.elements) + " x " + to_string(header.type);
  if (combines(header.collective)) text += std::string(", ") + to_string(header.op);
  if (has_root(header.collective)) text += ", root " + std::to_string(header.peer);
  return text + ")";
}

}  // namespace ddprun::shared_memory
