#include "launcher/process/proc_scan.hpp"
#include "launcher/process/stacks_file.hpp"
#include "launcher/process/worker_group_impl.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;

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
  if (is_starting_) {  // there is nothing to see before exec
    if (then) then();
    return;
  }
  if (!stack_captures_.is_busy()) ++open_watches_;  // NothingLeft waits for the tools, too
  const bool is_last = static_cast<bool>(then);
  StackCapture capture{.moment = std::move(moment),
                       .take =
                           [self = shared_from_this()](StackMoment why, Deadline deadline) {
                             self->stack_taker_.begin();
                             return take_all_stacks(self, std::move(why), deadline);
                           },
                       .then = std::move(then)};
  if (is_last) {
    stack_captures_.take_last(std::move(capture));
  } else {
    stack_captures_.ask(std::move(capture));
  }
}

/// Static, with everything in its frame by value: it may outlive the group.
asio::awaitable<void> WorkerGroup::Impl::take_all_stacks(std::shared_ptr<Impl> self,
                                                         StackMoment moment, Deadline deadline) {
  if (self->has_killed_) co_return;  // the workers are ending
  using Taking = decltype(asio::co_spawn(
      self->executor_, self->take_stacks_of(nullptr, moment, deadline), asio::deferred));
  std::vector<Taking> all;
  const auto is_wanted = [&ranks = moment.ranks](int rank) {
    return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  for (const auto& worker : self->workers_) {
    if (!is_wanted(worker->spec.rank) || worker->has_ended ||
        process_state(worker->process.pid()).is_exiting())
      continue;
    auto taking = self->take_stacks_of(worker, moment, deadline);
    all.push_back(asio::co_spawn(self->executor_, std::move(taking), asio::deferred));
  }
  if (!all.empty()) {
    auto group = asio::experimental::make_parallel_group(std::move(all));
    co_await group.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  }
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
  if (taken.lines.empty() && taken.problems.empty()) co_return;
  taken.attempt = attempt_;
  const auto& file = worker->spec.stacks_file;
  if (!file.empty()) {
    const auto problem = append_stacks(file, taken);
    if (problem.empty()) {
      taken.file = file.path();
    } else {
      taken.problems.push_back(problem);
    }
  }
  shorten(taken.lines);
  tell(std::move(taken));
}

}  // namespace ddprun
