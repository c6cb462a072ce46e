#include "rendezvous/store/name_lookup.hpp"

#include "rendezvous/base/start_thread.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <condition_variable>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

/// Shared by the caller and its thread; either may outlive the other.
struct Answer {
  std::mutex mutex;
  std::condition_variable has_come;
  std::optional<NameLookup> result;
};

/// Resolves with additional `flags`. Returns the resolver's error, or 0.
int resolve(const StoreEndpoint& endpoint, int flags, NameLookup& result) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error == 0) result.addresses.reset(found);
  return error;
}

NameLookup without_addresses(std::string problem) {
  NameLookup result;
  result.problem = std::move(problem);
  return result;
}

NameLookup query_resolver(const StoreEndpoint& endpoint) {
  NameLookup result;
  const int error = resolve(endpoint, 0, result);
  if (error != 0) {
    result.problem = "cannot look up " + endpoint.host + ": " + ::gai_strerror(error);
  }
  return result;
}

}  // namespace

NameLookup look_up(const StoreEndpoint& endpoint, Deadline deadline) {
  NameLookup numeric;
  if (resolve(endpoint, AI_NUMERICHOST, numeric) == 0) return numeric;
  return look_up_by([endpoint] { return query_resolver(endpoint); }, deadline);
}

NameLookup look_up_by(std::function<NameLookup()> resolve, Deadline deadline) {
  const auto answer = std::make_shared<Answer>();
  try {
    start_thread([answer, resolve = std::move(resolve)] {
      NameLookup result = resolve();
      const std::lock_guard lock(answer->mutex);
      answer->result = std::move(result);
      answer->has_come.notify_one();
    }).detach();
  } catch (const std::system_error& error) {
    return without_addresses(std::string("cannot start a thread to look up a name: ") +
                             error.code().message());
  }
  std::unique_lock lock(answer->mutex);
  const auto has_come = [&] { return answer->result.has_value(); };
  if (deadline.is_never()) {
    answer->has_come.wait(lock, has_come);
  } else if (!answer->has_come.wait_until(lock, deadline.time(), has_come)) {
    return without_addresses("no answer to the look-up of its name");
  }
  return std::move(*answer->result);
}

struct BackgroundLookup::Shared {
  std::mutex mutex;
  NameLookup result;
};

BackgroundLookup::BackgroundLookup(const StoreEndpoint& endpoint)
    : shared_(std::make_shared<Shared>()) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_system_error("pipe for a look-up", errno);
  fd_ = ends[0];
  const auto look = [endpoint, shared = shared_, write_end = ends[1]] {
    auto result = query_resolver(endpoint);
    {
      const std::lock_guard lock(shared->mutex);
      shared->result = std::move(result);
    }
    ::close(write_end);
  };
  try {
    start_thread(look).detach();
  } catch (const std::system_error& error) {
    shared_->result.problem =
        std::string("cannot start a thread to look up a name: ") + error.code().message();
    ::close(ends[1]);
  }
}

BackgroundLookup::~BackgroundLookup() {
  ::close(fd_);
}

NameLookup BackgroundLookup::take() {
  const std::lock_guard lock(shared_->mutex);
  return std::move(shared_->result);
}

}  // namespace ddprun
