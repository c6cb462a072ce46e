#include "launcher/report/patient_writer.hpp"

#include "rendezvous/base/quiet_write.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>

namespace ddprun {

namespace {

// A descriptor that poll() calls ready takes this much without blocking: POSIX' least PIPE_BUF.
constexpr std::size_t kReadyBytes = 512;
// Long enough for a terminal that is busy drawing, short enough that no worker's death waits.
constexpr auto kPatience = std::chrono::milliseconds(10);
constexpr auto kLastPatience = std::chrono::seconds(5);

}  // namespace

PatientWriter::~PatientWriter() {
  push(Deadline::after(kLastPatience));
}

void PatientWriter::write(std::string_view text) {
  if (pending_.size() + text.size() > kPendingBytesMax) {
    ++dropped_texts_;
  } else {
    pending_ += text;
  }
  push(Deadline::after(kPatience));
  if (!pending_.empty() || dropped_texts_ == 0) return;
  pending_ =
      "ddprun: the console was stopped; messages lost: " + std::to_string(dropped_texts_) + "\n";
  dropped_texts_ = 0;
  push(Deadline::after(kPatience));
}

void PatientWriter::push(Deadline deadline) {
  while (!pending_.empty()) {
    pollfd console{fd_, POLLOUT, 0};
    const int ready = ::poll(&console, 1, deadline.remaining_poll_milliseconds());
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    const auto written = quiet_write(fd_, pending_.data(), std::min(pending_.size(), kReadyBytes));
    if (written < 0 && (errno == EINTR || errno == EAGAIN) && !deadline.passed()) continue;
    if (written <= 0) {
      // Nobody will ever read it.
      pending_.clear();
      return;
    }
    pending_.erase(0, static_cast<std::size_t>(written));
  }
}

}  // namespace ddprun
