// Listens at an endpoint and passes on each accepted connection. Runs on the executor's single
// thread; only the name look-up blocks.
#pragma once

#include <ddprun/store.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>

namespace ddprun {

class Acceptor {
 public:
  /// Receives a connected, non-blocking, close-on-exec socket and owns it.
  using Take = std::function<void(int fd)>;
  /// Receives the operating system's error if no connection can be accepted; accepting is retried.
  using OnError = std::function<void(const std::string& what)>;

  /// Binds and listens. Throws like open_listener() does.
  Acceptor(const boost::asio::any_io_executor& executor, const StoreEndpoint& endpoint, Take take,
           OnError on_error);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();  ///< calls close()

  /// Returns the address as configured and the bound port.
  const StoreEndpoint& endpoint() const;

  /// Starts to accept connections.
  void start();

  /// Closes connections that have not been passed on yet.
  void drop_waiting();

  /// Stops accepting. May be called twice.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< shared with the coroutine, which may outlive this
};

}  // namespace ddprun
