#include "rendezvous/store/memory_return.hpp"

#include <malloc.h>

#include <algorithm>
#include <chrono>

namespace ddprun {

namespace {

/// Less is not worth the time.
constexpr std::size_t kTrimBytes = std::size_t{16} << 20;
constexpr auto kTrimPause = std::chrono::seconds(1);

}  // namespace

void MemoryReturn::note(std::size_t bytes_in_use) {
  if (bytes_in_use + kTrimBytes > peak_bytes_) {
    peak_bytes_ = std::max(peak_bytes_, bytes_in_use);
    return;
  }
  peak_bytes_ = bytes_in_use;
  timer_.expires_after(kTrimPause);
  timer_.async_wait([](boost::system::error_code error) {
    if (!error) ::malloc_trim(0);
  });
}

}  // namespace ddprun
