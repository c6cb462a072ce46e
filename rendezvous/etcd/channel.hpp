// A connection to etcd, plain or with TLS. Runs on the executor's one thread; includes Asio, so it
// is for .cpp files.
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

  /// Takes the connected socket `fd`. `session` null: plain.
  Channel(const boost::asio::any_io_executor& executor, int fd,
          std::unique_ptr<security::TlsSession> session);

  /// To be called first. An error, of the socket or TLS's (see problem()), or none.
  boost::asio::awaitable<Error> open();
  boost::asio::awaitable<Error> send(std::string bytes);

  /// Appends what comes next, at least a byte. asio::error::eof: nothing more will come.
  boost::asio::awaitable<Error> receive(boost::beast::flat_buffer& into);

  /// What is wrong with TLS, as the end of a sentence about the server; empty: nothing.
  std::string problem() const { return session_ ? session_->problem() : std::string(); }

  /// This machine's address as it is seen from there; empty if it is not known.
  std::string local_address() const;

 private:
  boost::asio::awaitable<Error> flush();
  boost::asio::awaitable<Error> receive_sealed();
  Error tls_error() const;

  boost::asio::ip::tcp::socket socket_;
  const std::unique_ptr<security::TlsSession> session_;
};

}  // namespace ddprun::etcd
