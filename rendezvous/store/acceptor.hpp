// Listens at an endpoint and hands over each connection as it comes. Runs on the executor's one
// thread; nothing here blocks but the look-up of a name.
#pragma once

#include <ddprun/store.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>

namespace ddprun {

class Acceptor {
 public:
  /// Gets a connected socket, non-blocking and close-on-exec, which is its own from then on.
  using Take = std::function<void(int fd)>;
  /// Gets what the operating system has against another connection; trying goes on.
  using Complain = std::function<void(const std::string& what)>;

  /// Binds and listens. Throws as open_listener() does.
  Acceptor(const boost::asio::any_io_executor& executor, const StoreEndpoint& endpoint, Take take,
           Complain complain);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();  ///< as close()

  /// The address as given, and the port that is bound.
  const StoreEndpoint& endpoint() const;

  /// Begins to hand over.
  void start();

  /// Closes the connections that were made and not yet handed over.
  void drop_waiting();

  /// Nothing is handed over any more. May be called twice.
  void close();

 private:
  struct State;
  std::shared_ptr<State>
      state_;  ///< shared with the coroutine, which ends a little later than this
};

}  // namespace ddprun
