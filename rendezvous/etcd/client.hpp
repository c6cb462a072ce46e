// Speaks to etcd through its HTTP gateway. Every request is a connection of its own: they are few,
// and a connection that is used once cannot be found broken. Runs on the executor's one thread;
// nothing blocks.
//
// Of several endpoints the one that answered last is asked first; one that cannot be reached or
// has no leader is passed over. So a request may be carried out twice: transactions say by their
// conditions what that would mean.
#pragma once

#include "rendezvous/etcd/messages.hpp"
#include "rendezvous/security/tls.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::etcd {

/// Of an answer: far more than etcd takes in one request (1.5 MiB by default), as base64.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{8} << 20;

/// The client is neither moved nor destroyed while a request is under way.
class Client {
 public:
  /// `tls` null: without TLS.
  Client(boost::asio::any_io_executor executor, std::vector<StoreEndpoint> endpoints,
         std::shared_ptr<const security::TlsContext> tls = nullptr);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const boost::asio::any_io_executor& executor() const { return executor_; }

  boost::asio::awaitable<Result<Lease>> grant(std::chrono::seconds time, Deadline deadline);
  boost::asio::awaitable<Result<std::chrono::seconds>> renew(LeaseId lease, Deadline deadline);
  boost::asio::awaitable<Result<TransactionAnswer>> commit(Transaction transaction,
                                                           Deadline deadline);
  /// Ends a lease, and with it its keys. What cannot be revoked ends by itself.
  boost::asio::awaitable<void> revoke(LeaseId lease, Deadline deadline);

  /// True when something in the range has changed since before `first`, at once if it had; false
  /// when that cannot be watched, or when the deadline has passed.
  boost::asio::awaitable<bool> wait_for_change(Range range, Revision first, Deadline deadline);

  /// The endpoint that answered last, and this machine's address as it is seen from there; empty
  /// before the first answer.
  const StoreEndpoint& endpoint() const { return endpoints_[preferred_]; }
  const std::string& local_address() const { return local_address_; }

 private:
  struct Answer {
    unsigned status = 0;  ///< 0: there is none
    std::string text;     ///< or why not
  };
  std::unique_ptr<security::TlsSession> session_with(const StoreEndpoint& endpoint) const;
  boost::asio::awaitable<Answer> ask(const char* path, std::string body, Deadline deadline);
  boost::asio::awaitable<Answer> ask_endpoint(std::size_t index, const char* path, std::string body,
                                              Deadline deadline);

  boost::asio::any_io_executor executor_;
  std::vector<StoreEndpoint> endpoints_;
  const std::shared_ptr<const security::TlsContext> tls_;
  std::size_t preferred_ = 0;
  std::string local_address_;
};

}  // namespace ddprun::etcd
