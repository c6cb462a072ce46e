#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/worker_group_impl.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;

// For how long all that the group has killed when it is destroyed may hold up the agent.
constexpr auto kCloseLimit = 1s;

std::string still_running_after(std::chrono::duration<double> grace) {
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "still running %.1f s after the request to stop",
                grace.count());
  return text.data();
}

}  // namespace

void WorkerGroup::Impl::forward(int signal) {
  const auto add_to = [signal](std::vector<int>& signals) {
    if (std::find(signals.begin(), signals.end(), signal) == signals.end()) {
      signals.push_back(signal);
    }
  };
  add_to(forwarded_);
  // Before exec there is no handler that could take it.
  if (is_starting_) return add_to(held_back_);
  signal_all(signal);
}

void WorkerGroup::Impl::signal_all(int signal) {
  for (auto& worker : workers_) {
    if (!worker->has_ended) worker->process.signal_group(signal);
  }
}

bool WorkerGroup::Impl::is_on_its_way_out(const Worker& worker) const {
  return worker.is_death_noticed ||
         page_.phase(worker.spec.local_rank) == control::WorkerPhase::exiting ||
         process_state(worker.process.pid()).is_exiting();
}

/// A worker that is exiting neither dies of a signal nor needs one, and its last steps show how it
/// ended: only a stopped one is continued. On others SIGCONT would have an effect, too: it takes
/// back the SIGSTOP by which a debugger or a leak checker holds the process, which then waits for
/// ever.
void WorkerGroup::Impl::let_go_on(Worker& worker) {
  const pid_t announced = page_.pid(worker.spec.local_rank);
  for (const pid_t pid : {worker.process.pid(), announced}) {
    if (pid > 0 && process_state(pid).letter == 'T') return worker.process.signal_group(SIGCONT);
  }
}

void WorkerGroup::Impl::note_late(std::vector<int> ranks) {
  late_ = std::move(ranks);
}

bool WorkerGroup::Impl::takes_stacks_first() const {
  return stacks_when_ == StacksWhen::stop || (stacks_when_ == StacksWhen::kill && !late_.empty());
}

void WorkerGroup::Impl::abort(int rank, const std::string& reason) {
  const control::AbortRecord record{.rank = rank, .reason = reason};
  // It would wake the workers that hang, and their stacks would not show where.
  if (takes_stacks_first() && !is_stopping_ && !has_killed_) {
    if (!delayed_abort_) delayed_abort_ = record;
  } else {
    page_.abort(record);
  }
}

void WorkerGroup::Impl::stop(int signal, std::chrono::milliseconds grace) {
  sweep_.hurry();
  const bool is_first = !is_stopping_ && !is_about_to_stop_ && !has_killed_;
  if (grace <= 0ms || !takes_stacks_first()) return ask_to_stop(signal, grace);
  if (is_about_to_stop_) return;
  if (!is_first) return ask_to_stop(signal, grace);
  is_about_to_stop_ = true;
  const bool takes_all = stacks_when_ == StacksWhen::stop;
  take_stacks({.reason = "before they are asked to stop",
               .next_signal = signal,
               .ranks = takes_all ? std::vector<int>() : late_},
              [this, signal, grace] {
                is_about_to_stop_ = false;
                if (!has_killed_) ask_to_stop(signal, grace);
              });
}

void WorkerGroup::Impl::ask_to_stop(int signal, std::chrono::milliseconds grace) {
  if (delayed_abort_) page_.abort(*std::exchange(delayed_abort_, std::nullopt));
  for (auto& worker : workers_) {
    if (worker->has_ended) continue;
    if (is_on_its_way_out(*worker)) {
      let_go_on(*worker);
      continue;
    }
    worker->was_stopped = !worker->damage && !worker->has_recorded_error();
    worker->process.signal_group(signal);
    // After the signal, so that a stopped worker does nothing else when it goes on.
    worker->process.signal_group(SIGCONT);
  }
  const bool was_stopping = std::exchange(is_stopping_, true);
  // Also if the grace has just ended and stacks are being taken.
  if (grace <= 0ms) return kill(grace);
  const auto until = RunClock::now() + grace;
  if (has_killed_ || (was_stopping && until >= kill_timer_.expiry())) return;
  kill_timer_.start(until, [weak = weak_from_this(), grace] {
    if (const auto self = weak.lock()) self->end_grace(grace);
  });
}

/// The last moment to see what the workers hang in.
void WorkerGroup::Impl::end_grace(std::chrono::milliseconds grace) {
  if (has_killed_ || stacks_when_ == StacksWhen::never) return kill(grace);
  take_stacks({.reason = still_running_after(grace), .next_signal = SIGKILL},
              [this, grace] { kill(grace); });
}

void WorkerGroup::Impl::kill(std::chrono::milliseconds grace) {
  if (std::exchange(has_killed_, true)) return;
  const auto ranks = running();
  if (ranks.empty()) return;
  killed_at_ = Worker::Clock::now();
  // All at once, so that no worker sees another one die.
  containment_.kill();
  stack_taker_.kill();
  signal_all(SIGKILL);
  tell(WorkersKilled{
      .attempt = attempt_,
      .reason = grace <= 0ms ? "at once, without time to stop" : still_running_after(grace),
      .ranks = ranks});
  kill_timer_.start(RunClock::now() + killed_limits_.warning_after, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->warn_of_killed();
  });
}

void WorkerGroup::Impl::warn_of_killed() {
  if (running().empty()) return;
  for (const auto& worker : workers_) {
    if (worker->has_ended) continue;
    write_log(log_, LogLevel::warn,
              "rank " + std::to_string(worker->spec.rank) + " (pid " +
                  std::to_string(worker->process.pid()) + ") is still running " +
                  still_running(*worker));
  }
  kill_timer_.start(RunClock::now() + killed_limits_.given_up_after, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->give_up_killed();
  });
}

std::string WorkerGroup::Impl::still_running(const Worker& worker) const {
  return after_sigkill(Worker::Clock::now() - killed_at_) + ": " +
         describe(kernel_wait(worker.process.pid()));
}

void WorkerGroup::Impl::give_up_killed() {
  for (auto& worker : workers_) {
    if (std::exchange(worker->has_ended, true)) continue;
    given_up_.push_back(worker->process.pid());
    auto exited = exit_of(*worker, {.exit_code = kUnknownExitCode});
    exited.still_running = still_running(*worker);
    tell(std::move(exited));
    end_watch();
  }
}

boost::asio::awaitable<Swept> WorkerGroup::Impl::sweep() {
  const auto self = shared_from_this();
  auto sweeping = sweep_.run(given_up_);
  co_return co_await std::move(sweeping);
}

void WorkerGroup::Impl::close() {
  death_watch_.reset();
  kill_timer_.cancel();
  orphans_.cancel();
  news_signal_.cancel();
  has_killed_ = true;
  start_wait_.end();
  stack_captures_.clear();
  stack_taker_.kill();
  signal_all(SIGKILL);  // all before the first is waited for
  const auto deadline = Deadline::after(kCloseLimit);
  for (auto& worker : workers_) {
    // A worker that has been given up has been waited for already.
    worker->process.close(worker->has_ended ? Deadline::after({}) : deadline);
    worker->standard_output->close();
    worker->standard_error->close();
  }
  workers_.clear();
}

}  // namespace ddprun
