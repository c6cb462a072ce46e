#include "rendezvous/store/long_turns.hpp"

#include "rendezvous/base/async_condition.hpp"
#include "rendezvous/base/await.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using Clock = asio::steady_timer::clock_type;

/// Turns that take at least as long are followed by a rest. Usual ones are shorter.
constexpr auto kRestAfter = std::chrono::milliseconds(4);

}  // namespace

struct LongTurns::State {
  explicit State(asio::any_io_executor the_executor)
      : executor(std::move(the_executor)), rest(executor) {}

  asio::any_io_executor executor;
  asio::steady_timer rest;
  Clock::time_point began;
  bool is_taken = false;
  std::deque<std::shared_ptr<AsyncCondition>> waiting;  ///< notified when its turn begins

  static asio::awaitable<Turn> begin(std::shared_ptr<State> self) {
    if (std::exchange(self->is_taken, true)) {
      const auto gate = std::make_shared<AsyncCondition>(self->executor);
      self->waiting.push_back(gate);
      co_await gate->wait();
    }
    self->began = Clock::now();
    co_return Turn(std::move(self));
  }

  static asio::awaitable<void> take_rest(std::shared_ptr<State> self) {
    self->rest.expires_after(Clock::now() - self->began);
    co_await self->rest.async_wait(kAwait);
    self->began = Clock::now();
  }

  static void end(const std::shared_ptr<State>& self) {
    const auto took = Clock::now() - self->began;
    if (took < kRestAfter) {
      asio::post(self->executor, [self] { self->begin_next(); });
    } else {
      self->rest.expires_after(took);
      self->rest.async_wait([self](boost::system::error_code) { self->begin_next(); });
    }
  }

  void begin_next() {
    is_taken = !waiting.empty();
    if (waiting.empty()) return;
    waiting.front()->notify_all();
    waiting.pop_front();
  }
};

LongTurns::LongTurns(asio::any_io_executor executor)
    : state_(std::make_shared<State>(std::move(executor))) {}

asio::awaitable<LongTurns::Turn> LongTurns::begin() {
  return State::begin(state_);
}

asio::awaitable<void> LongTurns::Turn::rest() {
  return State::take_rest(state_);
}

LongTurns::Turn::~Turn() {
  if (state_) State::end(state_);
}

}  // namespace ddprun
