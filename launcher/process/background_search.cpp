#include "launcher/process/background_search.hpp"

#include "rendezvous/base/start_thread.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

BackgroundSearch::BackgroundSearch(const boost::asio::any_io_executor& executor,
                                   std::function<void()> search, std::function<void()> on_end)
    : has_ended_(std::make_shared<std::mutex>()), on_end_(std::move(on_end)), end_(executor) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_system_error("pipe for a search", errno);
  UniqueFd read(ends[0]), write(ends[1]);
  const auto written = std::make_shared<UniqueFd>(std::move(write));
  end_.assign(read.get());
  read.release();
  start_thread([search = std::move(search), has_ended = has_ended_, written] {
    const UniqueFd closed_at_end = std::move(*written);
    const std::lock_guard lock(*has_ended);
    try {
      search();
    } catch (const std::exception&) {
      return;  // without a result
    }
  }).detach();
  end_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                  [this, owner = std::weak_ptr(owner_)](boost::system::error_code error) {
                    // A wait that has completed calls its handler even after the destructor.
                    if (error || owner.expired()) return;
                    const auto deliver = std::move(on_end_);
                    std::unique_lock(*has_ended_).unlock();
                    deliver();
                  });
}

}  // namespace ddprun
