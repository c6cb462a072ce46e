// The inside of WorkerGroup, in two source files: worker_group.cpp starts and watches,
// worker_group_stop.cpp ends. Runs on the agent's one thread.
#pragma once

#include "launcher/process/death_watch.hpp"
#include "launcher/process/exit_facts.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/process/worker_process.hpp"
#include "launcher/process/worker_stream.hpp"

#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// One worker from its fork until its exit has been told.
struct Worker {
  using Clock = std::chrono::steady_clock;

  WorkerSpec spec;
  WorkerProcess process;
  std::shared_ptr<WorkerStream> standard_output;
  std::shared_ptr<WorkerStream> standard_error;
  Clock::time_point started = Clock::now();
  bool is_death_noticed = false;
  bool has_ended = false;    ///< reaped, or given up
  bool was_stopped = false;  ///< asked to stop before its death was noticed

  double seconds_since_start() const {
    return std::chrono::duration<double>(Clock::now() - started).count();
  }
};

class WorkerGroup::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(boost::asio::any_io_executor executor, int attempt, Containment& containment,
       OutputRouter& router, control::ControlPage page, Log log);

  std::variant<std::vector<WorkerStarted>, WorkerNotStarted> start(
      const std::vector<WorkerSpec>& specs);
  boost::asio::awaitable<WorkerNews> next();
  void forward(int signal);
  void stop(int signal, std::chrono::milliseconds grace);
  void put_off_limits(std::chrono::steady_clock::duration by);
  std::vector<int> running() const;
  void abort(int rank, const std::string& reason);
  boost::asio::awaitable<std::vector<pid_t>> sweep();

  /// Ends everything at once; nothing is told any more.
  void close();

 private:
  std::optional<StartFailure> fork_worker(const WorkerSpec& spec);
  WorkerNotStarted give_up(const WorkerSpec& spec, const StartFailure& failure);
  void watch();
  static boost::asio::awaitable<void> watch_worker(std::shared_ptr<Impl> self,
                                                   std::shared_ptr<Worker> worker);
  WorkerExited exit_of(const Worker& worker, const ProcessExit& exit) const;
  static boost::asio::awaitable<bool> read_to_end(std::shared_ptr<Worker> worker,
                                                  Deadline deadline);
  void note_death(Worker& worker);
  void reap_orphans();
  void tell(WorkerNews news);
  void end_watch();

  bool is_on_its_way_out(const Worker& worker) const;
  static bool has_recorded_error(const Worker& worker);
  void kill(std::chrono::milliseconds grace);
  void wait_for_killed(std::chrono::seconds limit);
  void report_unkillable();
  void give_up_killed();

  boost::asio::any_io_executor executor_;
  int attempt_;
  Containment& containment_;
  OutputRouter& router_;
  control::ControlPage page_;
  Log log_;
  OutOfMemoryWatch out_of_memory_;
  std::vector<std::shared_ptr<Worker>> workers_;  ///< shared with the coroutine that watches it
  int open_watches_ = 0;
  std::deque<WorkerNews> news_;  ///< at most two for each worker and one more
  bool is_stopping_ = false;
  bool has_killed_ = false;
  boost::asio::steady_timer news_signal_;  ///< cancelled when there is news
  LimitTimer kill_timer_;
  boost::asio::signal_set orphans_;
  std::optional<DeathWatch> death_watch_;
};

}  // namespace ddprun
