// Gives coroutines turns for long work, one at a time. Between two turns the executor runs all that
// is ready, so that timers, signals and short work wait for at most one turn. For executors of one
// thread.
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

  /// Ends when it is destroyed. The next turn begins after the work that is ready by then; after a
  /// turn of some milliseconds only when the same time has passed again, so that such turns take at
  /// most half of the time.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Turn(Turn&& other) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

    /// Lets the executor run what is ready, for as long as the turn has taken since it began or
    /// rested last. The turn continues after it: no other turn begins in between.
    boost::asio::awaitable<void> rest();

   private:
    std::shared_ptr<State> state_;  ///< null once moved from
  };

  /// Returns when the caller's turn begins, in the order of the calls. The caller must not suspend
  /// during its turn, except to rest.
  boost::asio::awaitable<Turn> begin();

 private:
  std::shared_ptr<State> state_;  ///< shared with coroutines that wait, which may outlive this
};

}  // namespace ddprun
