#include "rendezvous/store/memory_return.hpp"

#include <boost/asio/steady_timer.hpp>
#include <malloc.h>

#include <algorithm>
#include <chrono>

namespace ddprun {

namespace {

/// Minimum drop that causes a return; small compared with an agent's 8 MiB.
constexpr std::size_t kReturnedBytesMin = std::size_t{1} << 20;
constexpr auto kReturnPause = std::chrono::seconds(1);

}  // namespace

struct MemoryReturn::State {
  explicit State(const boost::asio::any_io_executor& executor) : timer(executor) {}

  boost::asio::steady_timer timer;
  bool is_due = false;
  std::size_t bytes_in_use = 0;
  std::size_t peak_bytes = 0;  ///< since the last return
};

MemoryReturn::MemoryReturn(const boost::asio::any_io_executor& executor)
    : state_(std::make_shared<State>(executor)) {}

void MemoryReturn::note(std::size_t bytes_in_use) {
  State& state = *state_;
  state.bytes_in_use = bytes_in_use;
  state.peak_bytes = std::max(state.peak_bytes, bytes_in_use);
  if (state.is_due || state.peak_bytes - bytes_in_use < kReturnedBytesMin) return;
  state.is_due = true;
  state.timer.expires_after(kReturnPause);
  state.timer.async_wait([self = state_](boost::system::error_code error) {
    self->is_due = false;
    if (error) return;
    self->peak_bytes = self->bytes_in_use;
    ::malloc_trim(0);
  });
}

void MemoryReturn::stop() {
  state_->timer.cancel();
}

}  // namespace ddprun
