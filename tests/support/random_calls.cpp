#include "tests/support/random_calls.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace ddprun::test {

namespace {

constexpr std::size_t kPendingMax = 8;
constexpr int kShiftsMax = 64;

/// Inputs that differ from call to call, so that a result of an older call is detected.
std::vector<Bytes> shifted_inputs(int ranks, std::size_t elements, DataType type, int shift,
                                  Arithmetic arithmetic) {
  auto inputs = arithmetic == Arithmetic::in_rank_order
                    ? make_inputs(ranks, elements + kShiftsMax, type)
                    : make_whole_inputs(ranks, elements + kShiftsMax, type);
  for (auto& input : inputs) {
    const auto first = input.begin() + static_cast<std::ptrdiff_t>(shift * size_of(type));
    input = Bytes(first, first + static_cast<std::ptrdiff_t>(elements * size_of(type)));
  }
  return inputs;
}

Bytes join(const std::vector<Bytes>& parts) {
  Bytes joined;
  for (const auto& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

std::vector<Bytes> parts_for(const std::vector<Bytes>& inputs, int rank) {
  std::vector<Bytes> parts;
  for (const auto& input : inputs)
    parts.push_back(part_of(input, rank, static_cast<int>(inputs.size())));
  return parts;
}

}  // namespace

RandomCalls::RandomCalls(ProcessGroup group, unsigned seed, std::vector<int> on_nodes,
                         Arithmetic arithmetic)
    : group_(std::move(group)),
      on_nodes_(std::move(on_nodes)),
      arithmetic_(arithmetic),
      shared_random_(seed),
      own_random_(seed + 1000 + static_cast<unsigned>(group_.rank())) {}

std::string RandomCalls::run(int calls) {
  for (int i = 0; i < calls || !pending_.empty(); ++i) {
    if (i < calls) pending_.push_back(call());
    const bool must_wait = i >= calls || pending_.size() == kPendingMax;
    if (!must_wait && own_random_() % 3 != 0) continue;
    const Pending first = std::move(pending_.front());
    pending_.pop_front();
    first.work.wait();
    if (first.expected.empty()) continue;
    if (read(first.output.buffer) != first.expected) return "wrong: " + first.what;
  }
  return "ok";
}

RandomCalls::Pending RandomCalls::call() {
  constexpr DataType kTypes[] = {DataType::float32,  DataType::float64, DataType::float16,
                                 DataType::bfloat16, DataType::int32,   DataType::int64,
                                 DataType::uint8};
  const DataType type = kTypes[pick(7)];
  const int kind = pick(10);
  if (device_) place_ = pick(2) == 0 ? device_->device : Device{};
  // Lengths of all magnitudes, up to several slots for each rank's part.
  const auto elements = static_cast<std::size_t>(pick(1 << pick(15)));
  const auto size = static_cast<std::size_t>(group_.size());
  const auto inputs =
      shifted_inputs(group_.size(), elements * size, type, pick(kShiftsMax), arithmetic_);
  Pending pending;
  if (kind < 4) {
    pending = reduction(inputs, type);
  } else if (kind < 8) {
    pending = movement(inputs, type);
  } else if (kind == 8) {
    const auto previous = (static_cast<std::size_t>(group_.rank()) + size - 1) % size;
    pending = ring(inputs[static_cast<std::size_t>(group_.rank())], inputs[previous], type);
  } else {
    pending.work = group_.barrier();
  }
  pending.what += " of " + std::to_string(elements) + " x " + to_string(type);
  return pending;
}

RandomCalls::Pending RandomCalls::reduction(const std::vector<Bytes>& inputs, DataType type) {
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max};
  ReduceOp op = kOps[pick(4)];
  if (op == ReduceOp::average && !has_exact_average(type)) op = ReduceOp::sum;
  const int root = pick(group_.size());
  const Bytes& own = inputs[static_cast<std::size_t>(group_.rank())];
  const Bytes combined = serial_reduce(inputs, type, op, on_nodes_);
  const Memory input = place(own, type);
  switch (pick(3)) {
    case 0:
      return {"all_reduce", group_.all_reduce(input.buffer, op), {}, input, combined};
    case 1:
      return {"reduce",
              group_.reduce(input.buffer, root, op),
              {},
              input,
              group_.rank() == root ? combined : own};
    default:
      Bytes part = part_of(combined, group_.rank(), group_.size());
      const Memory output = place(part_of(own, 0, group_.size()), type);
      return {"reduce_scatter", group_.reduce_scatter(input.buffer, output.buffer, op), input,
              output, std::move(part)};
  }
}

bool RandomCalls::has_exact_average(DataType type) const {
  if (arithmetic_ == Arithmetic::in_rank_order) return true;
  if (type == DataType::int32 || type == DataType::uint8) return false;
  // On devices float16 is multiplied by the rounded 1/n before the sum.
  return type != DataType::float16 || place_.kind == Device::Kind::cpu ||
         std::has_single_bit(static_cast<unsigned>(group_.size()));
}

RandomCalls::Pending RandomCalls::movement(const std::vector<Bytes>& inputs, DataType type) {
  const int rank = group_.rank();
  const int root = pick(group_.size());
  const Bytes& own = inputs[static_cast<std::size_t>(rank)];
  const Bytes& of_root = inputs[static_cast<std::size_t>(root)];
  const Memory wide = place(own, type);
  const Memory narrow = place(part_of(own, 0, group_.size()), type);
  const Memory output = place(own, type);
  switch (pick(5)) {
    case 0:
      return {"broadcast", group_.broadcast(wide.buffer, root), {}, wide, of_root};
    case 1:
      return {"all_gather", group_.all_gather(narrow.buffer, output.buffer), narrow, output,
              join(parts_for(inputs, 0))};
    case 2:
      return {"gather", group_.gather(narrow.buffer, output.buffer, root), narrow, output,
              rank == root ? join(parts_for(inputs, 0)) : own};
    case 3:
      return {"scatter", group_.scatter(wide.buffer, narrow.buffer, root), wide, narrow,
              part_of(of_root, rank, group_.size())};
    default:
      return {"all_to_all", group_.all_to_all(wide.buffer, output.buffer), wide, output,
              join(parts_for(inputs, rank))};
  }
}

/// Sends to the next rank and receives from the previous one.
RandomCalls::Pending RandomCalls::ring(const Bytes& own, const Bytes& previous, DataType type) {
  const int tag = pick(3);
  const int size = group_.size();
  const Memory input = place(own, type);
  const Memory output = place(own, type);
  (void)group_.send(input.buffer, (group_.rank() + 1) % size, tag);
  return {"ring", group_.recv(output.buffer, (group_.rank() + size - 1) % size, tag), input, output,
          previous};
}

RandomCalls::Memory RandomCalls::place(const Bytes& content, DataType type) {
  const auto owner = allocate(std::max<std::size_t>(content.size(), 1));
  if (!content.empty()) copy(owner.get(), content.data(), content.size(), place_);
  return {owner, {owner.get(), content.size() / size_of(type), type, place_}};
}

Bytes RandomCalls::read(const Buffer& buffer) const {
  Bytes content(buffer.bytes());
  if (!content.empty()) copy(content.data(), buffer.data, content.size(), buffer.device);
  return content;
}

void RandomCalls::copy(void* to, const void* from, std::size_t bytes, Device device) const {
  if (device.kind == Device::Kind::cuda) {
    device_->copy(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

std::shared_ptr<void> RandomCalls::allocate(std::size_t bytes) {
  if (place_.kind == Device::Kind::cuda) return device_->allocate(bytes);
  if (own_random_() % 2 == 0) return group_.allocate(bytes);
  return {::operator new(bytes), [](void* p) { ::operator delete(p); }};
}

}  // namespace ddprun::test
