#include "launcher/agent/guardian_watch.hpp"

#include "launcher/agent/emit.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/posix/stream_descriptor.hpp>

#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;

// More kills than this are intended, or no guardian can run here (no /proc, no memory). Without a
// limit, guardians would be started for the rest of the run.
constexpr int kReplacementsMax = 10;

}  // namespace

class GuardianWatch::Impl {
 public:
  Impl(asio::any_io_executor executor, Containment& containment, EventSink& events)
      : pidfd_(std::move(executor)), containment_(containment), events_(events) {}

  void watch() {
    boost::system::error_code error;
    pidfd_.close(error);
    watched_ = containment_.guardian_pid();
    const int pidfd = ::fcntl(containment_.guardian_pidfd(), F_DUPFD_CLOEXEC, 0);
    pidfd_.assign(pidfd, error);
    if (error) {
      if (pidfd >= 0) ::close(pidfd);
      return report_loss("cannot be watched (" + error.message() + ")");
    }
    pidfd_.async_wait(asio::posix::descriptor_base::wait_read,
                      [this](boost::system::error_code not_ended) {
                        if (!not_ended) notice();
                      });
  }

 private:
  /// The guardian may have been replaced on purpose.
  void notice() {
    if (containment_.guardian_pid() == watched_) return replace();
    watch();
  }

  void replace() {
    const auto killed = watched_;
    if (++replacements_ > kReplacementsMax) {
      return report_loss("was killed, like the " + std::to_string(kReplacementsMax) +
                         " before it, and will not be replaced");
    }
    try {
      containment_.replace_guardian();
    } catch (const Error& error) {
      return report_loss("was killed and cannot be replaced: " + std::string(error.what()));
    }
    emit(events_,
         Warning{"the guardian (pid " + std::to_string(killed) + ") was killed; another one (pid " +
                 std::to_string(containment_.guardian_pid()) + ") replaced it"});
    watch();
  }

  void report_loss(const std::string& what) {
    emit(events_, Warning{"the guardian " + what +
                          "; if both it and ddprun are killed, processes that the workers have "
                          "started may keep running"});
  }

  asio::posix::stream_descriptor pidfd_;
  Containment& containment_;
  EventSink& events_;
  pid_t watched_ = -1;
  int replacements_ = 0;
};

GuardianWatch::GuardianWatch(asio::any_io_executor executor, Containment& containment,
                             EventSink& events)
    : impl_(std::make_unique<Impl>(std::move(executor), containment, events)) {}

GuardianWatch::~GuardianWatch() = default;

void GuardianWatch::start() {
  impl_->watch();
}

}  // namespace ddprun
