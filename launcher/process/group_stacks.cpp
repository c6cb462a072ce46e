#include "launcher/process/group_stacks.hpp"

#include "launcher/process/proc_scan.hpp"
#include "launcher/process/stacks_file.hpp"
#include "launcher/report/grouped_stacks.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;

// Maximum lines of a worker's stacks in an event: a screen of the console.
constexpr std::size_t kEventLinesMax = 60;

void shorten(std::vector<std::string>& lines) {
  if (lines.size() <= kEventLinesMax) return;
  const auto left = lines.size() - kEventLinesMax;
  lines.resize(kEventLinesMax);
  lines.push_back("... and " + std::to_string(left) + " more lines");
}

/// Takes the flights out of the workers. Returns nothing if PyTorch has recorded no calls at all,
/// such as in versions that record none.
std::vector<RankFlights> python_flights(const Workers& workers) {
  std::vector<RankFlights> all;
  bool is_any_recorded = false;
  for (const auto& worker : workers) {
    auto flights = std::exchange(worker->python_flights, {});
    if (flights.groups.empty()) continue;
    is_any_recorded =
        is_any_recorded || std::any_of(flights.groups.begin(), flights.groups.end(),
                                       [](const auto& group) { return !group.flights.empty(); });
    all.push_back({worker->spec.rank, std::move(flights)});
  }
  return is_any_recorded ? all : std::vector<RankFlights>();
}

}  // namespace

GroupStacks::GroupStacks(asio::any_io_executor executor, int attempt, Containment& containment,
                         const control::ControlPage& page, const Workers& workers,
                         const StackPlan& plan, Hooks hooks, const Log& log)
    : executor_(std::move(executor)),
      attempt_(attempt),
      page_(page),
      workers_(workers),
      hooks_(std::move(hooks)),
      log_(log),
      taker_(executor_, containment, plan),
      captures_(executor_, plan.limits.together,
                {.interrupt = [this] { taker_.interrupt(); }, .on_idle = hooks_.on_idle}, log) {}

bool GroupStacks::take(std::shared_ptr<const void> owner, StackMoment moment) {
  return captures_.take(capture(std::move(owner), std::move(moment), {}));
}

void GroupStacks::take_last(std::shared_ptr<const void> owner, StackMoment moment,
                            std::function<void()> then) {
  drops_running_ = captures_.is_busy() && is_hang_running_ && moment.scope.is_hang;
  captures_.take_last(capture(std::move(owner), std::move(moment), std::move(then)));
}

void GroupStacks::close() {
  is_closed_ = true;
  captures_.clear();
  taker_.kill();
}

StackCapture GroupStacks::capture(std::shared_ptr<const void> owner, StackMoment moment,
                                  std::function<void()> then) {
  return {.moment = std::move(moment),
          .take =
              [this, owner = std::move(owner)](StackMoment why, Deadline deadline) {
                taker_.begin();
                drops_running_ = false;
                is_hang_running_ = why.scope.is_hang;
                return take_all(this, owner, std::move(why), deadline);
              },
          .then = std::move(then)};
}

/// Static, so that its frame holds `owner`.
asio::awaitable<void> GroupStacks::take_all(GroupStacks* self,
                                            [[maybe_unused]] std::shared_ptr<const void> owner,
                                            StackMoment moment, Deadline deadline) {
  if (self->is_closed_) co_return;
  StacksCaptured captured{.stacks = {}, .is_hang = moment.scope.is_hang};
  using Taking = decltype(asio::co_spawn(
      self->executor_, self->take_one(nullptr, moment, false, deadline, captured.stacks),
      asio::deferred));
  std::vector<Taking> all;
  const auto& [ranks, is_hang] = moment.scope;
  for (const auto& worker : self->workers_) {
    const bool is_wanted =
        !ranks || std::find(ranks->begin(), ranks->end(), worker->spec.rank) != ranks->end();
    const bool is_quick = !is_wanted && is_hang;
    if ((!is_wanted && !is_quick) || worker->has_ended ||
        process_state(worker->process.pid()).is_exiting())
      continue;
    auto taking = self->take_one(worker, moment, is_quick, deadline, captured.stacks);
    all.push_back(asio::co_spawn(self->executor_, std::move(taking), asio::deferred));
  }
  if (!all.empty()) {
    auto group = asio::experimental::make_parallel_group(std::move(all));
    co_await group.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  }
  captured.flights = python_flights(self->workers_);
  if (std::exchange(self->drops_running_, false)) co_return;
  captured.stacks = grouped_stacks(std::move(captured.stacks));
  self->hooks_.on_captured(std::move(captured));
}

/// Adds the stacks to `all`.
asio::awaitable<void> GroupStacks::take_one(std::shared_ptr<Worker> worker, StackMoment moment,
                                            bool is_quick, Deadline deadline,
                                            std::vector<StacksTaken>& all) {
  const bool has_runtime = page_.phase(worker->spec.local_rank) != control::WorkerPhase::silent;
  StacksTaken taken;
  try {
    auto taking = taker_.take(worker, has_runtime, std::move(moment), is_quick, deadline);
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
  all.push_back(std::move(taken));
}

}  // namespace ddprun
