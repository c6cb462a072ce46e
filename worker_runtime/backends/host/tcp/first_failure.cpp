#include "worker_runtime/backends/host/tcp/first_failure.hpp"

#include <ddprun/error.hpp>

#include <charconv>
#include <chrono>
#include <exception>
#include <span>
#include <utility>

namespace ddprun::tcp {

namespace {

using shared_memory::FailureKind;
using shared_memory::FailureRecord;

// Enough for a responsive store; if it does not respond, the group fails without the cause.
constexpr auto kStoreTimeout = std::chrono::seconds(1);

}  // namespace

FirstFailure::FirstFailure(const shared_memory::Sync& sync, Store store, std::string key,
                           int own_rank, RankNames names)
    : sync_(sync),
      store_(std::move(store)),
      key_(std::move(key)),
      own_rank_(own_rank),
      names_(std::move(names)),
      alarm_(sync) {}

void FirstFailure::fail(FailureKind kind, int rank, const std::string& text) {
  // A failure on this node is the most reliable cause.
  check();
  const FailureRecord first = publish({kind, names_.number(rank), text});
  sync_.fail_and_throw(first.kind, first.rank, first.text);
}

void FirstFailure::fail_own(const std::string& text) noexcept {
  fail_here(FailureKind::died, names_.name(own_rank_) + " failed: " + text);
}

void FirstFailure::check_store() {
  const FailureRecord found = read_record();
  if (found.kind != FailureKind::none) sync_.fail_and_throw(found.kind, found.rank, found.text);
}

void FirstFailure::abort(const std::string& reason) noexcept {
  fail_here(FailureKind::aborted, reason);
}

void FirstFailure::fail_here(FailureKind kind, const std::string& text) noexcept {
  sync_.fail(kind, names_.number(own_rank_), text);
  if (const auto known = sync_.failure()) publish(*known);
}

void FirstFailure::use_store(const std::function<void(Store&)>& use) {
  const std::lock_guard lock(mutex_);
  use(store_);
}

FailureRecord FirstFailure::read_record() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const auto deadline = Deadline::after(kStoreTimeout);
    if (!store_.check(std::span(&key_, 1), deadline)) return {};
    return decode_failure(store_.get(key_, deadline));
  } catch (const std::exception&) {
    return {};  // as in publish()
  }
}

FailureRecord FirstFailure::publish(const FailureRecord& own) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const auto first =
        decode_failure(store_.compare_set(key_, "", encode(own), Deadline::after(kStoreTimeout)));
    return first.kind == FailureKind::none ? own : first;
  } catch (const std::exception&) {
    return own;  // the store may have failed for the same reason
  }
}

std::string encode(const FailureRecord& failure) {
  return std::to_string(static_cast<std::uint32_t>(failure.kind)) + " " +
         std::to_string(failure.rank) + " " + failure.text;
}

FailureRecord decode_failure(const std::string& text) {
  std::uint32_t kind = 0;
  int rank = 0;
  const char* const end = text.data() + text.size();
  const auto after_kind = std::from_chars(text.data(), end, kind);
  if (after_kind.ec != std::errc() || after_kind.ptr == end || *after_kind.ptr != ' ') return {};
  const auto after_rank = std::from_chars(after_kind.ptr + 1, end, rank);
  if (after_rank.ec != std::errc() || after_rank.ptr == end || *after_rank.ptr != ' ') return {};
  if (kind > static_cast<std::uint32_t>(FailureKind::mismatch)) return {};
  return {static_cast<FailureKind>(kind), rank, {after_rank.ptr + 1, end}};
}

}  // namespace ddprun::tcp
