// Schedules long work of coroutines in turns, one at a time. Between turns the executor runs all
// ready work, so timers, signals and short work wait for at most one turn. For single-threaded
// executors.
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

  /// A turn; ends on destruction. The next turn starts after all work that is ready by then; after
  /// a turn of some milliseconds, only after a pause of the same length, so long turns use at most
  /// half of the time.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Turn(Turn&& other) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

    /// Yields to the executor for as long as the turn has run since it began or last rested. No
    /// other turn begins meanwhile.
    boost::asio::awaitable<void> rest();

   private:
    std::shared_ptr<State> state_;  ///< null once moved from
  };

  /// Returns when the caller's turn begins, in the order of the calls. The caller must not suspend
  /// during its turn, except to rest.
  boost::asio::awaitable<Turn> begin();

 private:
  std::shared_ptr<State> state_;  ///< shared with waiting coroutines, which may outlive this
};

}  // namespace ddprun
