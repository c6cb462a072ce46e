// Calls of senders and receivers; messenger_thread.cpp implements the thread.
#include "worker_runtime/backends/host/tcp/messenger.hpp"

#include "worker_runtime/backends/new_thread.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace ddprun::tcp {

using shared_memory::FailureKind;

namespace {

std::string describe_size(std::uint64_t elements, DataType type) {
  return std::to_string(elements) + " elements of " + to_string(type);
}

}  // namespace

Messenger::Messenger(MessengerOptions options, Socket listener, Mesh& mesh, FirstFailure& failure)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      mesh_(mesh),
      failure_(failure),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      meeting_(options_.rank, options_.key, options_.peers, listener_.fd()),
      peers_(options_.peers.size()) {
  if (wake_fd_ < 0) throw_system_error("process group: eventfd", errno);
}

void Messenger::enter() {
  thread_ = new_thread("process group", [this] { serve(); });
}

Messenger::Lock Messenger::begin(int rank) {
  Lock lock(mutex_);
  peer(rank).is_wanted = true;
  return lock;
}

void Messenger::send(const Operation& operation, Deadline deadline) {
  const Buffer& input = operation.input;
  Message message;
  message.header.tag = operation.tag;
  message.header.elements = input.elements;
  message.header.type = static_cast<std::uint64_t>(input.type);
  const auto* const first = static_cast<const std::byte*>(input.data);
  message.bytes.assign(first, first + input.bytes());
  Lock lock = begin(operation.peer);
  while (true) {
    check_peer(operation);
    if (peer(operation.peer).out.size() < kQueuedMessagesMax) break;
    wait(lock, operation, deadline);
  }
  peer(operation.peer).out.push_back(std::move(message));
  lock.unlock();
  ::eventfd_write(wake_fd_, 1);
}

void Messenger::recv(const Operation& operation, Deadline deadline) {
  Lock lock = begin(operation.peer);
  Peer& from = peer(operation.peer);
  from.is_awaited = true;
  ::eventfd_write(wake_fd_, 1);
  auto match = from.in.end();
  while (true) {
    match = std::find_if(from.in.begin(), from.in.end(), [&](const Message& message) {
      return message.header.tag == operation.tag;
    });
    if (match != from.in.end()) break;
    if (from.in.size() >= kEarlyMessagesMax) {
      failure_.fail(FailureKind::mismatch, operation.peer,
                    describe(operation) + ": " + std::to_string(kEarlyMessagesMax) +
                        " messages with other tags are pending (limit)");
    }
    check_peer(operation);
    wait(lock, operation, deadline);
  }
  from.is_awaited = false;
  const Message message = std::move(*match);
  from.in.erase(match);
  lock.unlock();
  ::eventfd_write(wake_fd_, 1);  // the thread may read again
  const Buffer& output = operation.output;
  const auto type = static_cast<DataType>(message.header.type);
  if (message.header.elements != output.elements || type != output.type) {
    failure_.fail(FailureKind::mismatch, operation.peer,
                  describe(operation) + " on " + failure_.names().name(options_.rank) + ": " +
                      describe_size(output.elements, output.type) + " expected, " +
                      describe_size(message.header.elements, type) + " sent");
  }
  if (output.bytes() > 0) std::memcpy(output.data, message.bytes.data(), output.bytes());
}

void Messenger::wait(Lock& lock, const Operation& operation, Deadline deadline) {
  if (deadline.is_never()) return changed_.wait(lock);
  if (changed_.wait_until(lock, deadline.time()) != std::cv_status::timeout) return;
  failure_.fail(
      FailureKind::timeout, operation.peer,
      describe(operation) + " on " + failure_.names().name(options_.rank) + ": " +
          (operation.collective == Collective::send
               ? std::to_string(kQueuedMessagesMax) + " earlier messages had not been received "
               : "no message had come ") +
          deadline.describe());
}

/// Throws if the peer has left or its connection is lost.
void Messenger::check_peer(const Operation& operation) {
  if (has_failed_) failure_.check();
  const Peer& other = peer(operation.peer);
  const std::string name = failure_.names().name(operation.peer);
  if (other.has_left)
    failure_.fail(FailureKind::left, operation.peer, name + " has left the process group");
  if (!other.loss_reason.empty())
    failure_.fail(FailureKind::died, operation.peer, name + " " + other.loss_reason);
}

std::string Messenger::describe(const Operation& operation) const {
  return std::string(to_string(operation.collective)) +
         (operation.collective == Collective::send ? " to " : " from ") +
         failure_.names().name(operation.peer) + " (tag " + std::to_string(operation.tag) + ")";
}

void Messenger::leave() noexcept {
  if (thread_.joinable()) {
    {
      const Lock lock(mutex_);
      is_stopping_ = true;
    }
    ::eventfd_write(wake_fd_, 1);
    thread_.join();
  }
  if (wake_fd_ >= 0) ::close(std::exchange(wake_fd_, -1));
}

}  // namespace ddprun::tcp
