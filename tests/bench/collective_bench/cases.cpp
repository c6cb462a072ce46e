#include "tests/bench/collective_bench/cases.hpp"

#include "tests/bench/collective_bench/elements.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace ddprun::bench {

namespace {

/// Value of `rank` at `index`: a small integer, so that sums and products of a few ranks are exact
/// in every type.
double value_of(int rank, std::size_t index) {
  return static_cast<double>((index * 7 + static_cast<std::size_t>(rank) * 3) % 3 + 1);
}

double combine(ReduceOp op, DataType type, int ranks, std::size_t index) {
  double result = value_of(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = value_of(rank, index);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        result += value;
        break;
      case ReduceOp::product:
        result *= value;
        break;
      case ReduceOp::min:
        result = std::min(result, value);
        break;
      case ReduceOp::max:
        result = std::max(result, value);
        break;
    }
  }
  // In the precision in which the sum of a float is divided.
  if (op != ReduceOp::average) return result;
  if (type == DataType::float64) return result / ranks;
  return static_cast<float>(result) / static_cast<float>(ranks);
}

std::shared_ptr<void> allocate(ProcessGroup& group, bool is_own, std::size_t bytes) {
  if (!is_own) return group.allocate(std::max<std::size_t>(bytes, 1));
  constexpr auto kAlignment = std::align_val_t(64);
  return {::operator new(std::max<std::size_t>(bytes, 1), kAlignment),
          [](void* memory) { ::operator delete(memory, kAlignment); }};
}

}  // namespace

const Case::Name Case::kNames[] = {{"all_reduce", Kind::all_reduce},
                                   {"all_gather", Kind::all_gather},
                                   {"reduce_scatter", Kind::reduce_scatter},
                                   {"broadcast", Kind::broadcast},
                                   {"reduce", Kind::reduce},
                                   {"gather", Kind::gather},
                                   {"scatter", Kind::scatter},
                                   {"all_to_all", Kind::all_to_all},
                                   {"sendrecv", Kind::sendrecv}};

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& one : Case::kNames) names.emplace_back(one.name);
  return names;
}

Case::Case(const std::string& collective, ProcessGroup group, const Options& options,
           std::size_t bytes)
    : options_(options), group_(std::move(group)) {
  for (const auto& one : kNames) {
    if (collective == one.name) kind_ = one.kind;
  }
  large_elements_ = bytes / size_of(options.type);
  const auto ranks = static_cast<std::size_t>(group_.size());
  if (count() != large_elements_ || kind_ == Kind::all_to_all)
    large_elements_ = large_elements_ / ranks * ranks;
  first_ = allocate(group_, options.own_memory, this->bytes());
  if (has_output()) second_ = allocate(group_, options.own_memory, this->bytes());
}

std::size_t Case::count() const {
  switch (kind_) {
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all:
      return large_elements_ / static_cast<std::size_t>(group_.size());
    default:
      return large_elements_;
  }
}

bool Case::combines() const {
  return kind_ == Kind::all_reduce || kind_ == Kind::reduce_scatter || kind_ == Kind::reduce;
}

bool Case::has_root() const {
  return kind_ == Kind::broadcast || kind_ == Kind::reduce || kind_ == Kind::gather ||
         kind_ == Kind::scatter;
}

bool Case::has_output() const {
  return kind_ != Kind::all_reduce && kind_ != Kind::broadcast && kind_ != Kind::reduce;
}

std::string Case::op() const {
  return combines() ? op_name(options_.op) : "none";
}

int Case::root() const {
  return has_root() ? options_.root : -1;
}

Buffer Case::input() const {
  const bool is_part = kind_ == Kind::all_gather || kind_ == Kind::gather;
  return {first_.get(), is_part ? count() : large_elements_, options_.type};
}

Buffer Case::output() const {
  if (!has_output()) return input();
  const bool is_part = kind_ == Kind::reduce_scatter || kind_ == Kind::scatter;
  return {second_.get(), is_part ? count() : large_elements_, options_.type};
}

void Case::call() {
  const int rank = group_.rank();
  const int size = group_.size();
  switch (kind_) {
    case Kind::all_reduce:
      return group_.all_reduce(input(), options_.op).wait();
    case Kind::all_gather:
      return group_.all_gather(input(), output()).wait();
    case Kind::reduce_scatter:
      return group_.reduce_scatter(input(), output(), options_.op).wait();
    case Kind::broadcast:
      return group_.broadcast(input(), options_.root).wait();
    case Kind::reduce:
      return group_.reduce(input(), options_.root, options_.op).wait();
    case Kind::gather:
      return group_.gather(input(), output(), options_.root).wait();
    case Kind::scatter:
      return group_.scatter(input(), output(), options_.root).wait();
    case Kind::all_to_all:
      return group_.all_to_all(input(), output()).wait();
    case Kind::sendrecv:
      const Work sent = group_.send(input(), (rank + 1) % size);
      group_.recv(output(), (rank + size - 1) % size).wait();
      return sent.wait();
  }
}

void Case::write_input() {
  const Buffer buffer = input();
  for (std::size_t i = 0; i < buffer.elements; ++i)
    store_element(buffer, i, value_of(group_.rank(), i));
}

void Case::clear_output() {
  if (!has_output()) return;
  const Buffer result = output();
  for (std::size_t i = 0; i < result.elements; ++i) store_element(result, i, 0);
}

double Case::expected(std::size_t index) const {
  const int rank = group_.rank();
  const int size = group_.size();
  const auto part = count();
  switch (kind_) {
    case Kind::all_reduce:
    case Kind::reduce:
      return combine(options_.op, options_.type, size, index);
    case Kind::reduce_scatter:
      return combine(options_.op, options_.type, size,
                     static_cast<std::size_t>(rank) * part + index);
    case Kind::broadcast:
      return value_of(options_.root, index);
    case Kind::all_gather:
    case Kind::gather:
      return value_of(static_cast<int>(index / part), index % part);
    case Kind::scatter:
      return value_of(options_.root, static_cast<std::size_t>(rank) * part + index);
    case Kind::all_to_all:
      return value_of(static_cast<int>(index / part),
                      static_cast<std::size_t>(rank) * part + index % part);
    case Kind::sendrecv:
      return value_of((rank + size - 1) % size, index);
  }
  return 0;
}

std::size_t Case::count_wrong() {
  write_input();
  clear_output();
  call();
  const bool has_result =
      !(kind_ == Kind::reduce || kind_ == Kind::gather) || group_.rank() == options_.root;
  if (!has_result) return 0;
  const Buffer result = output();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < result.elements; ++i) {
    if (!holds_element(result, i, expected(i))) ++wrong;
  }
  return wrong;
}

double Case::bus_factor() const {
  const auto ranks = static_cast<double>(group_.size());
  switch (kind_) {
    case Kind::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all:
      return (ranks - 1) / ranks;
    default:
      return 1;
  }
}

}  // namespace ddprun::bench
