#include "trainers/tracking/mlflow_sender.hpp"

#include "trainers/tracking/http_client.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace trainer {

namespace {

using Clock = std::chrono::steady_clock;
using ddprun::Deadline;
using ddprun::LogLevel;

/// Interval of attempts after the end of the training.
constexpr std::chrono::milliseconds kLastRetryInterval{250};
/// Limit for the thread to end after its request is interrupted.
constexpr std::chrono::milliseconds kInterruptTime{250};

std::int64_t now_milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

/// Starts a thread in which all signals are blocked.
std::thread start_quiet_thread(std::function<void()> body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(body));
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

/// The end of the training.
struct End {
  RunStatus status;
  std::int64_t milliseconds;
  Deadline deadline;
};

}  // namespace

/// State shared by both threads. The resolver of the C library may block the sender's thread beyond
/// the end of the training; the thread is then detached and becomes the only owner.
struct MlflowSender::Shared {
  Shared(ServerAddress server, const std::string& authorization, ddprun::Log log_of_thread)
      : client(std::move(server), authorization), log(std::move(log_of_thread)) {}

  HttpClient client;
  std::mutex mutex;
  std::condition_variable changed;
  Backlog backlog;
  std::string tracking_id;
  bool has_run = false;
  std::optional<End> end;
  bool is_over() const { return is_complete || has_given_up || (end && end->deadline.passed()); }
  bool is_done = false;       ///< the thread sends no more
  bool is_complete = false;   ///< everything is sent, including the status
  bool has_given_up = false;  ///< the rest is not sent, and the reason is logged

  /// For `log` alone: a log that blocks must not stop the training.
  std::mutex log_mutex;
  ddprun::Log log;  ///< the thread's; empty once the thread is detached
};

/// Data that was not sent.
struct MlflowSender::Left {
  bool is_nothing = false;  ///< or the reason is logged already
  std::size_t points = 0;   ///< 0: only the status was not sent
  std::size_t refused = 0;  ///< points that the server has refused
};

/// The sender's thread.
class MlflowSender::SenderLoop {
 public:
  SenderLoop(std::string name, std::shared_ptr<Shared> shared, RunDescription description)
      : name_(std::move(name)), shared_(std::move(shared)), setup_(std::move(description)) {}

  void run() {
    try {
      send_until_over();
    } catch (const std::exception& error) {
      give_up(error.what());
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->is_done = true;
    shared_->changed.notify_all();
  }

 private:
  void send_until_over() {
    bool is_over = false;
    while (!is_over) {
      const bool is_answered = send_all();
      std::unique_lock lock(shared_->mutex);
      if (!shared_->is_over()) wait(lock, is_answered);
      is_over = shared_->is_over();
    }
  }

  void give_up(const std::string& problem) {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->has_given_up = true;
    }
    try {
      write(LogLevel::warn, problem + "; the training continues without MLflow");
    } catch (const std::exception&) {
      // The log, or a lack of memory, may be the problem.
    }
  }

  void wait(std::unique_lock<std::mutex>& lock, bool is_answered) {
    if (shared_->end) {
      shared_->changed.wait_for(lock, kLastRetryInterval);
      return;
    }
    shared_->changed.wait_for(lock, interval_, [&] { return shared_->end.has_value(); });
    interval_ = is_answered ? kSendInterval : std::min(2 * interval_, kRetryIntervalMax);
  }

  ServerAnswer exchange(const HttpRequest& request) {
    auto deadline = Deadline::after(kRequestTimeout);
    {
      const std::lock_guard lock(shared_->mutex);
      const auto& end = shared_->end;
      if (end && end->deadline.time() < deadline.time()) deadline = end->deadline;
    }
    return read_answer(shared_->client.exchange(request, deadline));
  }

  void write(LogLevel level, const std::string& text) {
    const std::lock_guard lock(shared_->log_mutex);
    write_log(shared_->log, level, name_ + ": " + text);
  }

  void report_outage(const std::string& problem) {
    if (is_out_) return;
    is_out_ = true;
    write(LogLevel::warn,
          problem + "; the training continues, and points are kept until the server accepts them");
  }

  void report_answer() {
    if (is_out_) write(LogLevel::info, "the server responds again");
    is_out_ = false;
  }

  void report_dropped() {
    if (has_warned_of_drop_) return;
    has_warned_of_drop_ = true;
    write(LogLevel::warn, "more than " + std::to_string(Backlog::kStepPointsMax) +
                              " points of steps are not sent yet; the oldest are dropped");
  }

  /// False if the server is unavailable or refuses.
  bool set_up() {
    while (!setup_.is_ready()) {
      const ServerAnswer answer = exchange(setup_.request());
      const std::string problem = setup_.take(answer);
      if (setup_.is_refused()) {
        give_up("the server refuses a run: " + problem);
        return false;
      }
      if (!problem.empty()) {
        report_outage(problem);
        return false;
      }
      report_answer();
      if (setup_.is_ready()) finish_set_up(answer);
    }
    return true;
  }

  void finish_set_up(const ServerAnswer& answer) {
    if (answer.verdict == Verdict::refused) {
      write(LogLevel::warn, "the server refuses the parameters and tags: " + answer.problem);
    }
    if (setup_.lacks_earlier_run()) {
      write(LogLevel::warn,
            "the run of the earlier training was not found; a new one has the points from here on");
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->backlog.skip(setup_.last_steps());
    shared_->tracking_id = setup_.tracking_id();
    shared_->has_run = true;
  }

  /// Data to send: points, or else the status once the training has ended.
  struct Work {
    Backlog::Batch batch;
    std::optional<End> end;
    bool has_dropped = false;
  };
  Work take_work() {
    const std::lock_guard lock(shared_->mutex);
    return {shared_->backlog.first(kMetricsMax), shared_->end, shared_->backlog.has_dropped()};
  }

  /// False if the server is unavailable, denies access or refuses the run.
  bool send_all() {
    if (!set_up()) return false;
    while (true) {
      const Work work = take_work();
      if (work.has_dropped) report_dropped();
      const auto& points = work.batch.points;
      if (points.empty() && !work.end) return true;
      const std::string& run = setup_.mlflow_run();
      const ServerAnswer answer =
          exchange(points.empty() ? update_run(run, work.end->status, work.end->milliseconds)
                                  : log_points(run, points));
      if (answer.verdict == Verdict::unavailable || answer.verdict == Verdict::denied) {
        report_outage(answer.problem);
        return false;
      }
      report_answer();
      if (answer.verdict == Verdict::refused) {
        if (points.empty()) report_refusal("the status of the run", answer.problem);
        if (!send_by_metric(points)) return false;
      }
      const std::lock_guard lock(shared_->mutex);
      shared_->backlog.remove(work.batch);
      shared_->is_complete = points.empty();
      // After a partial batch, points are collected for the next one.
      const bool is_last = points.size() < kMetricsMax && !shared_->end;
      if (shared_->is_complete || is_last) return true;
    }
  }

  /// Sends the points of a refused batch in one request per metric, and leaves out each metric that
  /// is refused. False if the server is unavailable or denies access: the whole batch is then sent
  /// again, of which MLflow ignores what it has.
  bool send_by_metric(std::span<const Point> points) {
    std::map<std::string, std::vector<Point>> metrics;
    for (const Point& point : points) metrics[point.name].push_back(point);
    for (const auto& [name, own] : metrics) {
      const ServerAnswer answer = exchange(log_points(setup_.mlflow_run(), own));
      if (answer.verdict == Verdict::unavailable || answer.verdict == Verdict::denied) {
        report_outage(answer.problem);
        return false;
      }
      if (answer.verdict == Verdict::refused) leave_out(name, answer.problem);
    }
    return true;
  }

  void leave_out(const std::string& metric, const std::string& problem) {
    std::size_t count = 0;
    {
      const std::lock_guard lock(shared_->mutex);
      count = shared_->backlog.refuse(metric);
    }
    report_refusal("metric '" + metric + "'", problem,
                   "; its points are left out, " + std::to_string(count) + " so far");
  }

  void report_refusal(const std::string& refused, const std::string& problem,
                      const std::string& consequence = "") {
    // All metrics of a deleted run, and its status, are refused with the same text.
    if (problem == last_refusal_) return;
    last_refusal_ = problem;
    write(LogLevel::warn, "the server refuses " + refused + ": " + problem + consequence);
  }

  const std::string name_;
  const std::shared_ptr<Shared> shared_;
  MlflowSetup setup_;
  std::chrono::seconds interval_ = kSendInterval;  ///< until the next attempt to send
  std::string last_refusal_;                       ///< that was logged
  bool is_out_ = false;
  bool has_warned_of_drop_ = false;
};

MlflowSender::MlflowSender(ServerAddress server, const std::string& authorization,
                           RunDescription description, Backlog backlog, ddprun::Log log)
    : name_("MLflow at " + server.uri),
      log_(std::move(log)),
      shared_(std::make_shared<Shared>(std::move(server), authorization, log_)) {
  shared_->backlog = std::move(backlog);
  shared_->tracking_id = description.tracking_id;
  shared_->has_run = description.has_run;
  auto loop = std::make_shared<SenderLoop>(name_, shared_, std::move(description));
  thread_ = start_quiet_thread([loop] { loop->run(); });
}

MlflowSender::~MlflowSender() {
  if (thread_.joinable()) stop(RunStatus::failed, std::chrono::milliseconds(0));
}

void MlflowSender::push(Backlog::Kind kind, Point point) {
  point.milliseconds = now_milliseconds();
  const std::lock_guard lock(shared_->mutex);
  shared_->backlog.push(kind, std::move(point));
}

nlohmann::json MlflowSender::state() const {
  const std::lock_guard lock(shared_->mutex);
  return {{"tracking_id", shared_->tracking_id},
          {"has_run", shared_->has_run},
          {"points", shared_->backlog.to_json()}};
}

void MlflowSender::finish(RunStatus status, std::chrono::milliseconds limit,
                          const std::string& remedy) {
  const Left left = stop(status, limit);
  const auto warn = [&](const std::string& text) {
    write_log(log_, LogLevel::warn, name_ + ": " + text);
  };
  if (left.refused > 0) {
    warn("the server has refused " + std::to_string(left.refused) + " points in total");
  }
  if (left.is_nothing) return;
  const std::string unsent =
      left.points == 0 ? "the status of the run was"
                       : std::to_string(left.points) + " points and the status of the run were";
  warn(unsent + " not sent within " +
       std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) + " s" +
       remedy);
}

MlflowSender::Left MlflowSender::stop(RunStatus status, std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  const auto deadline = Deadline::after(limit);
  shared_->end = End{status, now_milliseconds(), deadline};
  shared_->changed.notify_all();
  const auto is_done = [&] { return shared_->is_done; };
  if (!shared_->changed.wait_until(lock, deadline.time(), is_done)) {
    // A request that began before the end has its own, later deadline.
    lock.unlock();
    shared_->client.interrupt();
    lock.lock();
    shared_->changed.wait_for(lock, kInterruptTime, is_done);
  }
  const bool has_ended = shared_->is_done;
  const Left left = {shared_->is_complete || shared_->has_given_up, shared_->backlog.size(),
                     shared_->backlog.refused_count()};
  lock.unlock();
  if (has_ended) {
    thread_.join();
  } else {
    thread_.detach();
    const std::lock_guard log_lock(shared_->log_mutex);  // waits for a call that is under way
    shared_->log = nullptr;
  }
  return left;
}

}  // namespace trainer
