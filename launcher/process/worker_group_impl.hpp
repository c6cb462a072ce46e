// The inside of WorkerGroup, in four source files: worker_group_start.cpp starts, worker_group.cpp
// watches, worker_group_stop.cpp ends, worker_group_stacks.cpp looks into the workers. Runs on the
// agent's one thread.
#pragma once

#include "launcher/process/death_watch.hpp"
#include "launcher/process/exit_facts.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/limited_wait.hpp"
#include "launcher/process/stack_captures.hpp"
#include "launcher/process/stack_taker.hpp"
#include "launcher/process/sweep.hpp"
#include "launcher/process/worker.hpp"
#include "launcher/process/worker_group.hpp"

#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A worker that could not be started, by one try.
struct FailedWorker {
  int rank = 0;
  StartFailure failure;
  std::string message;
};

class WorkerGroup::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(boost::asio::any_io_executor executor, int attempt, Containment& containment,
       OutputRouter& router, control::ControlPage page, Log log, const StackPlan& stacks,
       KilledLimits limits);

  boost::asio::awaitable<StartResult> start(std::vector<WorkerSpec> specs, StartRetry& retry);
  boost::asio::awaitable<WorkerNews> next();
  void forward(int signal);
  void stop(int signal, std::chrono::milliseconds grace);
  std::vector<int> running() const;
  std::vector<RankFlights> flights();
  void note_late(std::vector<int> ranks);
  void abort(int rank, const std::string& reason);

  /// With `then`, which is called when all has been told, the workers are to end: nothing that was
  /// asked for before is waited for.
  void take_stacks(StackMoment moment, std::function<void()> then);
  boost::asio::awaitable<Swept> sweep();

  /// Ends everything at once; nothing is told any more.
  void close();

 private:
  boost::asio::awaitable<std::optional<FailedWorker>> try_start(std::deque<WorkerSpec>& missing,
                                                                const StartRetry& retry);
  bool must_end_start(const StartRetry& retry) const;
  boost::asio::awaitable<std::optional<FailedWorker>> fork_all(std::deque<WorkerSpec>& missing,
                                                               const StartRetry& retry);
  std::optional<FailedWorker> fork_worker(const WorkerSpec& spec);
  std::optional<StartFailure> fork_with_streams(const WorkerSpec& spec);
  boost::asio::awaitable<std::optional<FailedWorker>> wait_for_exec(
      std::deque<WorkerSpec>& missing);
  std::optional<FailedWorker> start_death_watch();
  static FailedWorker failed_worker(const WorkerSpec& spec, const StartFailure& failure);
  boost::asio::awaitable<void> give_up();
  std::vector<WorkerStarted> finish_start();
  void watch();
  static boost::asio::awaitable<void> watch_worker(std::shared_ptr<Impl> self,
                                                   std::shared_ptr<Worker> worker);
  WorkerExited exit_of(const Worker& worker, const ProcessExit& exit) const;
  static boost::asio::awaitable<bool> read_to_end(std::shared_ptr<Worker> worker,
                                                  Deadline deadline);
  void note_death(Worker& worker, const std::optional<std::string>& damage = {});
  void kill_damaged(Worker& worker, const std::string& damage);
  void note_change();
  void reap_orphans();
  void tell(WorkerNews news);
  void end_watch();

  bool takes_stacks_first() const;
  static boost::asio::awaitable<void> take_all_stacks(std::shared_ptr<Impl> self,
                                                      StackMoment moment, Deadline deadline);
  boost::asio::awaitable<void> take_stacks_of(std::shared_ptr<Worker> worker, StackMoment moment,
                                              Deadline deadline);

  void ask_to_stop(int signal, std::chrono::milliseconds grace);
  void end_grace(std::chrono::milliseconds grace);
  bool is_on_its_way_out(const Worker& worker) const;
  void let_go_on(Worker& worker);
  void signal_all(int signal);
  void kill(std::chrono::milliseconds grace);
  void warn_of_killed();
  std::string still_running(const Worker& worker) const;
  void give_up_killed();

  boost::asio::any_io_executor executor_;
  int attempt_;
  Containment& containment_;
  OutputRouter& router_;
  control::ControlPage page_;
  Log log_;
  KilledLimits killed_limits_;
  OutOfMemoryWatch out_of_memory_;
  std::vector<std::shared_ptr<Worker>> workers_;  ///< shared with the coroutine that watches it
  LimitedWait start_wait_;
  bool is_starting_ = false;
  std::vector<int> held_back_;  ///< signals to forward when all are started, each once
  std::vector<int> forwarded_;  ///< signals, each once
  int open_watches_ = 0;
  std::deque<WorkerNews> news_;  ///< three for each worker, two more, and stacks on demand
  StacksWhen stacks_when_;
  StackTaker stack_taker_;
  StackCaptures stack_captures_;
  std::vector<int> late_;  ///< ranks; see WorkerGroup::note_late()
  std::optional<control::AbortRecord> delayed_abort_;
  bool is_about_to_stop_ = false;  ///< as soon as the stacks have been taken
  bool is_stopping_ = false;
  bool has_killed_ = false;
  Worker::Clock::time_point killed_at_;    ///< once has_killed_
  std::vector<pid_t> given_up_;            ///< killed workers that have not ended
  boost::asio::steady_timer news_signal_;  ///< cancelled when there is news
  LimitTimer kill_timer_;
  boost::asio::signal_set orphans_;
  std::optional<DeathWatch> death_watch_;
  Sweep sweep_;
};

}  // namespace ddprun
