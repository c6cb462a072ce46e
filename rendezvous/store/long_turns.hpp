// Lets one coroutine at a time do work that takes long, and all that is ready on the executor in
// between: timers, signals and short work wait for one such turn at most. Runs on the executor's
// one thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <memory>
#include <utility>

namespace ddprun {

class LongTurns {
  struct State;

 public:
  explicit LongTurns(boost::asio::any_io_executor executor);

  /// Ends when it is destroyed. The next turn begins when what is ready by then has been done;
  /// after a turn of some milliseconds not before as much time has passed again, so that such turns
  /// take half of the time at most.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Turn(Turn&& other) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    std::shared_ptr<State> state_;  ///< null: it has been moved from
  };

  /// Returns when it is the caller's turn, in the order of the calls. The caller waits for nothing
  /// while it has the turn.
  boost::asio::awaitable<Turn> begin();

 private:
  std::shared_ptr<State> state_;  ///< shared with coroutines that wait, which may outlive this
};

}  // namespace ddprun
