// A connection to etcd, plain or with TLS. Runs on the executor's single thread. Includes Asio;
// only for .cpp files.
#pragma once

#include "rendezvous/security/tls.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/system/error_code.hpp>

#include <memory>
#include <string>

namespace ddprun::etcd {

class Channel {
 public:
  using Error = boost::system::error_code;

  /// Takes ownership of the connected socket `fd`. `session` null: no TLS.
  Channel(const boost::asio::any_io_executor& executor, int fd,
          std::unique_ptr<security::TlsSession> session);

  /// Must be called first. Returns an error of the socket or TLS (see problem()), or none.
  boost::asio::awaitable<Error> open();
  boost::asio::awaitable<Error> send(std::string bytes);

  /// Appends at least one received byte. Returns asio::error::eof at the end.
  boost::asio::awaitable<Error> receive(boost::beast::flat_buffer& into);

  /// Returns the TLS problem as a predicate of the server; empty if none.
  std::string problem() const { return session_ ? session_->problem() : std::string(); }

  /// Returns this machine's address on the connection; empty if unknown.
  std::string local_address() const;

 private:
  boost::asio::awaitable<Error> flush();
  boost::asio::awaitable<Error> receive_sealed();
  Error tls_error() const;

  boost::asio::ip::tcp::socket socket_;
  const std::unique_ptr<security::TlsSession> session_;
};

}  // namespace ddprun::etcd
