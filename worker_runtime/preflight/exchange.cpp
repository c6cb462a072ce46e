#include "worker_runtime/preflight/exchange.hpp"

#include "worker_runtime/group/device_queue_of.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

namespace ddprun::preflight {

namespace {

using Clock = Deadline::Clock;

// Number of measurements, of which the best counts: the first one connects, and other processes use
// the machine as well.
constexpr int kExchanges = 5;

/// Returns small integers, whose sums over all ranks are exact in float32.
float value_of(std::size_t element, int worker) {
  return static_cast<float>(element % 251 + static_cast<std::size_t>(worker));
}

/// A float32 buffer of this rank on its device, with copies from and to the host.
class Numbers {
 public:
  Numbers(ProcessGroup& group, const ExchangeSettings& settings, Deadline deadline)
      : settings_(settings),
        deadline_(deadline),
        queue_(device_queue_of(group)),
        values_(settings.elements) {
    if (is_on_device()) memory_ = group.allocate(bytes(), settings.device);
  }

  Buffer buffer() {
    void* const data = is_on_device() ? memory_.get() : values_.data();
    return {data, values_.size(), DataType::float32, settings_.device};
  }

  void set(int worker) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = value_of(i, worker);
    if (is_on_device()) queue_->copy(memory_.get(), values_.data(), bytes(), deadline_);
  }

  /// Throws unless the buffer has the sums of the values of `workers`.
  void check(const std::vector<int>& workers) {
    if (is_on_device()) queue_->copy(values_.data(), memory_.get(), bytes(), deadline_);
    float constant = 0;
    for (const int worker : workers) constant += static_cast<float>(worker);
    const auto ranks = static_cast<float>(workers.size());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i] == ranks * value_of(i, 0) + constant) continue;
      throw Error(Errc::internal, "the sum over " + std::to_string(workers.size()) +
                                      " workers is wrong at element " + std::to_string(i) + " of " +
                                      std::to_string(values_.size()));
    }
  }

  std::size_t bytes() const { return values_.size() * sizeof(float); }

 private:
  bool is_on_device() const { return settings_.device.kind != Device::Kind::cpu; }

  const ExchangeSettings& settings_;
  const Deadline deadline_;
  DeviceQueue* const queue_;
  std::vector<float> values_;
  std::shared_ptr<void> memory_;
};

/// Returns the rate of the fastest all-reduce in bytes per second. Throws if one fails or has a
/// wrong result.
double measure(ProcessGroup group, const ExchangeSettings& settings) {
  const auto workers = group.workers();
  const auto deadline = Deadline::after(settings.limit);
  Numbers numbers(group, settings, deadline);
  double best = 0;
  for (int i = 0; i < kExchanges; ++i) {
    numbers.set(workers[static_cast<std::size_t>(group.rank())]);
    group.barrier().wait(deadline);
    const auto start = Clock::now();
    group.all_reduce(numbers.buffer()).wait(deadline);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    numbers.check(workers);
    best = std::max(best, static_cast<double>(numbers.bytes()) / std::max(seconds, 1e-9));
  }
  return best;
}

/// Replaces `exchange` if the new rate is higher; records a failure.
void try_exchange(Exchange& exchange, ProcessGroup group, const ExchangeSettings& settings) {
  try {
    exchange.bytes_per_second = std::max(exchange.bytes_per_second, measure(group, settings));
  } catch (const PeerFailed& failure) {
    exchange.problem = failure.what();
  } catch (const Error& failure) {
    exchange.problem = failure.what();
    exchange.is_own_problem = true;
    group.abort(failure.what());
  }
}

}  // namespace

Exchange exchange_in_pairs(ProcessGroup group, const ExchangeSettings& settings) {
  Exchange exchange;
  GroupOptions options;
  options.join_timeout = options.collective_timeout = settings.limit;
  for (const auto& round : pairings(group.size())) {
    std::optional<ProcessGroup> own;
    for (const auto& [low, high] : round) {
      auto made = group.new_group({low, high}, {}, options);
      if (made) own = std::move(made);
    }
    // Makes all pairs exchange at the same time.
    group.barrier().wait();
    if (own) try_exchange(exchange, *own, settings);
  }
  return exchange;
}

Exchange exchange_with_all(ProcessGroup group, const ExchangeSettings& settings) {
  Exchange exchange;
  try_exchange(exchange, group, settings);
  return exchange;
}

}  // namespace ddprun::preflight
