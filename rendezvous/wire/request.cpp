#include "rendezvous/wire/request.hpp"

#include "rendezvous/wire/bytes.hpp"
#include "rendezvous/wire/operations.hpp"
#include <ddprun/error.hpp>

namespace ddprun::wire {

namespace {

void append_keys(std::string& out, const std::vector<std::string>& keys) {
  append_integer(out, std::uint64_t{keys.size()});
  for (const auto& key : keys) append_string(out, key);
}

/// Adds a request's fields, in the order of the table.
struct AppendFields {
  std::string& out;

  void operator()(const Ping& ping) const { append_integer(out, ping.nonce); }
  void operator()(const Set& set) const { strings(set.key, set.value); }
  void operator()(const CompareSet& swap) const { strings(swap.key, swap.expected, swap.desired); }
  void operator()(const Get& get) const { strings(get.key); }
  void operator()(const Add& add) const {
    strings(add.key);
    append_integer(out, add.delta);
  }
  void operator()(const Check& check) const { append_keys(out, check.keys); }
  void operator()(const Wait& wait) const { append_keys(out, wait.keys); }
  void operator()(const NumberOfKeys&) const {}
  void operator()(const WatchKey& watch) const { strings(watch.key); }
  void operator()(const DeleteKey& erase) const { strings(erase.key); }
  void operator()(const Append& append) const { strings(append.key, append.bytes); }
  void operator()(const MultiGet& get) const { append_keys(out, get.keys); }
  void operator()(const MultiSet& set) const {
    append_integer(out, std::uint64_t{set.pairs.size()});
    for (const auto& [key, value] : set.pairs) strings(key, value);
  }
  void operator()(const CancelWait&) const {}
  void operator()(const QueuePush& push) const { strings(push.key, push.value); }
  void operator()(const QueuePop& pop) const { strings(pop.key); }
  void operator()(const QueueLength& length) const { strings(length.key); }
  void operator()(const ListKeys&) const {}
  void operator()(const Barrier& barrier) const {
    strings(barrier.key);
    append_integer(out, barrier.world_size);
  }

  template <typename... Strings>
  void strings(const Strings&... each) const {
    (append_string(out, each), ...);
  }
};

}  // namespace

void append_request(std::string& out, const Request& request, Dialect dialect) {
  const Operation& operation = kOperations[request.index()];
  const int code = dialect == Dialect::legacy ? operation.legacy : operation.modern;
  if (code == kNoCode) {
    throw Error(Errc::usage, std::string("store protocol: this dialect has no ") + operation.name);
  }
  out.push_back(static_cast<char>(code));
  std::visit(AppendFields{out}, request);
}

void append_validate(std::string& out) {
  out.push_back(static_cast<char>(kValidateCode));
  append_integer(out, kValidateMagic);
}

const char* operation_name(const Request& request) {
  return kOperations[request.index()].name;
}

}  // namespace ddprun::wire
