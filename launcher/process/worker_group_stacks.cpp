#include "launcher/process/proc_scan.hpp"
#include "launcher/process/stacks_file.hpp"
#include "launcher/process/worker_group_impl.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// For the stacks of all workers together. A debugger needs a second or two for a program with
// PyTorch in it; nobody wants to wait much longer for the end of a run that hangs.
constexpr auto kStacksLimit = 5s;

// What an event carries of a worker's stacks: a screen of the console for each.
constexpr std::size_t kEventLinesMax = 60;

void shorten(std::vector<std::string>& lines) {
  if (lines.size() <= kEventLinesMax) return;
  const auto left = lines.size() - kEventLinesMax;
  lines.resize(kEventLinesMax);
  lines.push_back("... and " + std::to_string(left) + " more lines");
}

}  // namespace

void WorkerGroup::Impl::take_stacks(StackMoment moment, std::function<void()> then) {
  ++open_watches_;  // NothingLeft waits for the tools, too
  auto taking = take_all_stacks(shared_from_this(), std::move(moment), std::move(then));
  asio::co_spawn(executor_, std::move(taking), asio::detached);
}

/// Static, with everything in its frame by value: it may outlive the group.
asio::awaitable<void> WorkerGroup::Impl::take_all_stacks(std::shared_ptr<Impl> self,
                                                         StackMoment moment,
                                                         std::function<void()> then) {
  // One capture at a time: two debuggers cannot look at one process.
  while (std::exchange(self->is_taking_stacks_, true)) {
    boost::system::error_code ignored;
    co_await self->stacks_taken_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  const auto deadline = Deadline::after(kStacksLimit);
  using Taking = decltype(asio::co_spawn(
      self->executor_, self->take_stacks_of(nullptr, moment, deadline), asio::deferred));
  std::vector<Taking> all;
  for (const auto& worker : self->workers_) {
    if (worker->has_ended || process_state(worker->process.pid()).is_exiting()) continue;
    auto taking = self->take_stacks_of(worker, moment, deadline);
    all.push_back(asio::co_spawn(self->executor_, std::move(taking), asio::deferred));
  }
  if (!all.empty()) {
    auto group = asio::experimental::make_parallel_group(std::move(all));
    co_await group.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  }
  self->is_taking_stacks_ = false;
  self->stacks_taken_.cancel();
  if (then) then();
  self->end_watch();
}

asio::awaitable<void> WorkerGroup::Impl::take_stacks_of(std::shared_ptr<Worker> worker,
                                                        StackMoment moment, Deadline deadline) {
  const bool has_runtime = page_.phase(worker->spec.local_rank) != control::WorkerPhase::silent;
  StacksTaken taken;
  try {
    auto taking = stack_taker_.take(worker, has_runtime, std::move(moment), deadline);
    taken = co_await std::move(taking);
  } catch (const std::exception& error) {
    write_log(log_, LogLevel::warn,
              "no stacks of rank " + std::to_string(worker->spec.rank) + ": " + error.what());
  }
  if (taken.lines.empty()) co_return;  // it ended before anything was found
  taken.attempt = attempt_;
  const auto& file = worker->spec.stacks_file;
  if (!file.empty()) {
    const auto problem = append_stacks(file, taken);
    if (problem.empty()) {
      taken.file = file;
    } else {
      taken.problems.push_back(problem);
    }
  }
  shorten(taken.lines);
  tell(std::move(taken));
}

}  // namespace ddprun
