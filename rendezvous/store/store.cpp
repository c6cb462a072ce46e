#include "rendezvous/store/store_connection.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/reply.hpp"
#include <ddprun/store.hpp>

#include <utility>

namespace ddprun {

class Store::Impl {
 public:
  Impl(StoreConnection made, std::string prefix)
      : connection(std::move(made)), prefix_(std::move(prefix)) {}

  /// Key as sent to the server.
  std::string wire_key(std::string_view key) const {
    std::string full = "/" + prefix_;
    full += key;
    if (full.size() > wire::kKeyBytesMax) {
      throw Error(Errc::usage, "store: a key of " + std::to_string(full.size()) +
                                   " bytes with its prefix (at most " +
                                   std::to_string(wire::kKeyBytesMax) + ")");
    }
    return full;
  }

  std::vector<std::string> wire_keys(std::span<const std::string> keys) const {
    if (keys.size() > wire::kKeysPerRequestMax) {
      throw Error(Errc::usage, "store: " + std::to_string(keys.size()) +
                                   " keys in one call (at most " +
                                   std::to_string(wire::kKeysPerRequestMax) + ")");
    }
    std::vector<std::string> full;
    full.reserve(keys.size());
    for (const auto& key : keys) full.push_back(wire_key(key));
    return full;
  }

  void wait(const std::vector<std::string>& full_keys, const StoreCall& call) {
    connection.send(wire::Wait{full_keys}, call);
    connection.receive_end_of_wait(call);
  }

  bool check(std::vector<std::string> full_keys, const StoreCall& call) {
    connection.send(wire::Check{std::move(full_keys)}, call);
    return connection.receive_integer<std::uint8_t>(call) ==
           static_cast<std::uint8_t>(wire::Answer::ready);
  }

  std::string get(const std::string& full_key, const StoreCall& call) {
    connection.send(wire::Get{full_key}, call);
    return connection.receive_string(call);
  }

  const std::string& prefix() const { return prefix_; }

  StoreConnection connection;

 private:
  std::string prefix_;  ///< ends with "/" unless it is empty
};

namespace {

std::string checked_value(std::string_view value) {
  if (value.size() > wire::kValueBytesMax) {
    throw Error(Errc::usage, "store: a value of " + std::to_string(value.size()) +
                                 " bytes (at most " + std::to_string(wire::kValueBytesMax) + ")");
  }
  return std::string(value);
}

/// Returns text such as "a, b, c and 5 more" for error messages.
std::string name_keys(std::span<const std::string> keys) {
  constexpr std::size_t kNamed = 3;
  std::string names;
  for (std::size_t i = 0; i < keys.size() && i < kNamed; ++i) {
    names += (i == 0 ? "" : ", ") + keys[i];
  }
  if (keys.size() > kNamed) names += " and " + std::to_string(keys.size() - kNamed) + " more";
  return names;
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Store Store::connect(const StoreEndpoint& endpoint, Deadline deadline) {
  return Store(std::make_unique<Impl>(StoreConnection::connect(endpoint, deadline), ""));
}

Store Store::with_prefix(const std::string& prefix, Deadline deadline) const {
  return Store(std::make_unique<Impl>(StoreConnection::connect(endpoint(), deadline),
                                      impl_->prefix() + prefix + "/"));
}

const StoreEndpoint& Store::endpoint() const {
  return impl_->connection.endpoint();
}

std::string Store::local_address() const {
  return impl_->connection.local_address();
}

void Store::set(std::string_view key, std::string_view value, Deadline deadline) {
  impl_->connection.send(wire::Set{impl_->wire_key(key), checked_value(value)},
                         {"set", key, deadline});
}

std::string Store::get(std::string_view key, Deadline deadline) {
  const StoreCall call{"get", key, deadline};
  const std::string full_key = impl_->wire_key(key);
  impl_->wait({full_key}, call);
  return impl_->get(full_key, call);
}

std::optional<std::string> Store::try_get(std::string_view key, Deadline deadline) {
  const StoreCall call{"get", key, deadline};
  const std::string full_key = impl_->wire_key(key);
  // The server's answer to GET does not distinguish absent keys from empty values.
  if (!impl_->check({full_key}, call)) return std::nullopt;
  return impl_->get(full_key, call);
}

std::int64_t Store::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  const StoreCall call{"add", key, deadline};
  impl_->connection.send(wire::Add{impl_->wire_key(key), delta}, call);
  return impl_->connection.receive_integer<std::int64_t>(call);
}

std::string Store::compare_set(std::string_view key, std::string_view expected,
                               std::string_view desired, Deadline deadline) {
  const StoreCall call{"compare_set", key, deadline};
  impl_->connection.send(
      wire::CompareSet{impl_->wire_key(key), checked_value(expected), checked_value(desired)},
      call);
  return impl_->connection.receive_string(call);
}

void Store::append(std::string_view key, std::string_view bytes, Deadline deadline) {
  impl_->connection.send(wire::Append{impl_->wire_key(key), checked_value(bytes)},
                         {"append", key, deadline});
}

bool Store::check(std::span<const std::string> keys, Deadline deadline) {
  return impl_->check(impl_->wire_keys(keys), {"check", name_keys(keys), deadline});
}

void Store::wait(std::span<const std::string> keys, Deadline deadline) {
  const std::string names = name_keys(keys);
  impl_->wait(impl_->wire_keys(keys), {"wait for", names, deadline});
}

bool Store::erase(std::string_view key, Deadline deadline) {
  const StoreCall call{"erase", key, deadline};
  impl_->connection.send(wire::DeleteKey{impl_->wire_key(key)}, call);
  return impl_->connection.receive_integer<std::int64_t>(call) > 0;
}

std::int64_t Store::number_of_keys(Deadline deadline) {
  const StoreCall call{"number_of_keys", "", deadline};
  impl_->connection.send(wire::NumberOfKeys{}, call);
  return impl_->connection.receive_integer<std::int64_t>(call);
}

std::vector<std::string> Store::multi_get(std::span<const std::string> keys, Deadline deadline) {
  const std::string names = name_keys(keys);
  const StoreCall call{"multi_get", names, deadline};
  const auto full_keys = impl_->wire_keys(keys);
  impl_->wait(full_keys, call);
  impl_->connection.send(wire::MultiGet{full_keys}, call);
  std::vector<std::string> values;
  values.reserve(keys.size());
  while (values.size() < keys.size()) values.push_back(impl_->connection.receive_string(call));
  return values;
}

void Store::multi_set(std::span<const std::string> keys, std::span<const std::string> values,
                      Deadline deadline) {
  if (keys.size() != values.size()) {
    throw Error(Errc::usage, "store: multi_set of " + std::to_string(keys.size()) + " keys and " +
                                 std::to_string(values.size()) + " values");
  }
  auto full_keys = impl_->wire_keys(keys);
  wire::MultiSet set;
  set.pairs.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    set.pairs.emplace_back(std::move(full_keys[i]), checked_value(values[i]));
  }
  const std::string names = name_keys(keys);
  impl_->connection.send(std::move(set), {"multi_set", names, deadline});
}

void Store::queue_push(std::string_view key, std::string_view value, Deadline deadline) {
  impl_->connection.send(wire::QueuePush{impl_->wire_key(key), checked_value(value)},
                         {"queue_push", key, deadline});
}

std::string Store::queue_pop(std::string_view key, Deadline deadline) {
  const StoreCall call{"queue_pop", key, deadline};
  const std::string full_key = impl_->wire_key(key);
  while (true) {
    impl_->wait({full_key}, call);
    impl_->connection.send(wire::QueuePop{full_key}, call);
    // Another client may have popped the value first.
    if (impl_->connection.receive_integer<std::int64_t>(call) > 0) {
      return impl_->connection.receive_string(call);
    }
  }
}

std::int64_t Store::queue_length(std::string_view key, Deadline deadline) {
  const StoreCall call{"queue_length", key, deadline};
  impl_->connection.send(wire::QueueLength{impl_->wire_key(key)}, call);
  return impl_->connection.receive_integer<std::int64_t>(call);
}

std::vector<std::string> Store::list_keys(Deadline deadline) {
  const StoreCall call{"list_keys", "", deadline};
  impl_->connection.send(wire::ListKeys{}, call);
  const auto count = impl_->connection.receive_integer<std::int64_t>(call);
  const std::string wire_prefix = "/" + impl_->prefix();
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string key = impl_->connection.receive_string(call);
    if (key.starts_with(wire_prefix)) keys.push_back(key.substr(wire_prefix.size()));
  }
  return keys;
}

void Store::barrier(std::string_view key, std::int64_t world_size, Deadline deadline) {
  const StoreCall call{"barrier", key, deadline};
  impl_->connection.send(wire::Barrier{impl_->wire_key(key), world_size}, call);
  impl_->connection.receive_end_of_wait(call);
}

}  // namespace ddprun
