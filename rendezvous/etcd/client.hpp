// Client of etcd's HTTP gateway. Requests are rare, so each has a separate connection, which cannot
// be stale. Runs on the executor's single thread and does not block.
//
// Tries the endpoint that responded most recently first, and skips those that are unreachable or
// have no leader. A request may therefore be performed twice; transactions detect this by their
// conditions.
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

/// Maximum bytes of an answer, far above etcd's limit for requests (default: 1.5 MiB) in base64.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{8} << 20;

/// REQUIRES: the client is neither moved nor destroyed during a request.
class Client {
 public:
  /// `tls` null: no TLS.
  Client(boost::asio::any_io_executor executor, std::vector<StoreEndpoint> endpoints,
         std::shared_ptr<const security::TlsContext> tls = nullptr);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const boost::asio::any_io_executor& executor() const { return executor_; }

  boost::asio::awaitable<Result<Lease>> grant(std::chrono::seconds time, Deadline deadline);
  boost::asio::awaitable<Result<std::chrono::seconds>> renew(LeaseId lease, Deadline deadline);
  boost::asio::awaitable<Result<TransactionAnswer>> commit(Transaction transaction,
                                                           Deadline deadline);
  /// Revokes a lease, which deletes its keys. On failure the lease expires by itself.
  boost::asio::awaitable<void> revoke(LeaseId lease, Deadline deadline);

  /// Returns true once a key in the range has changed at or after revision `first`; false on
  /// failure or at the deadline.
  boost::asio::awaitable<bool> wait_for_change(Range range, Revision first, Deadline deadline);

  /// The endpoint that answered last, and this machine's address on that connection; empty before
  /// the first answer.
  const StoreEndpoint& endpoint() const { return endpoints_[preferred_]; }
  const std::string& local_address() const { return local_address_; }

 private:
  struct Answer {
    unsigned status = 0;  ///< HTTP status; 0: no answer
    std::string text;     ///< body, or the problem if there is no answer
  };
  std::unique_ptr<security::TlsSession> session_with(const StoreEndpoint& endpoint) const;
  boost::asio::awaitable<Answer> call(const char* path, std::string body, Deadline deadline);
  boost::asio::awaitable<Answer> call_endpoint(std::size_t index, const char* path,
                                               std::string body, Deadline deadline);

  boost::asio::any_io_executor executor_;
  std::vector<StoreEndpoint> endpoints_;
  const std::shared_ptr<const security::TlsContext> tls_;
  std::size_t preferred_ = 0;
  std::string local_address_;
};

}  // namespace ddprun::etcd
