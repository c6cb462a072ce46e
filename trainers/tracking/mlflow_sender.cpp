#include "trainers/tracking/mlflow_sender.hpp"

#include "trainers/tracking/http_client.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace trainer {

namespace {

using Clock = std::chrono::steady_clock;
using ddprun::Deadline;
using ddprun::LogLevel;

/// Between two attempts at the end of the training.
constexpr std::chrono::milliseconds kLastRetryInterval{250};
/// For an interrupted thread to end.
constexpr std::chrono::milliseconds kInterruptTime{250};

std::int64_t now_milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

/// In which no signal handler of the program runs.
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

struct End {
  RunStatus status;
  std::int64_t milliseconds;
  Deadline deadline;
};

}  // namespace

/// What both threads use. The resolver of the C library may hold the sender's thread beyond the end
/// of the training: it then owns all of this alone.
struct MlflowSender::Shared {
  Shared(ServerAddress server, const std::string& authorization)
      : client(std::move(server), authorization) {}

  HttpClient client;
  std::mutex mutex;
  std::condition_variable changed;
  Backlog backlog;
  std::string tracking_id;
  std::optional<End> end;
  bool is_over() const {
    return is_complete || has_given_up || (end && end->deadline.passed());
  }
  bool is_done = false;       ///< the thread sends no more
  bool is_complete = false;   ///< all is sent, the status included
  bool has_given_up = false;  ///< the rest is not sent, and the log says why
  bool is_abandoned = false;  ///< the thread writes no more to the log
};

/// What the server has not got.
struct MlflowSender::Left {
  bool is_nothing = false;
  std::size_t points = 0;  ///< perhaps the status alone is missing
};

/// The sender's thread.
class MlflowSender::Conversation {
 public:
  Conversation(std::string name, std::shared_ptr<Shared> shared, RunDescription description,
               ddprun::Log log)
      : name_(std::move(name)),
        shared_(std::move(shared)),
        setup_(std::move(description)),
        log_(std::move(log)) {}

  void run() {
    bool is_over = false;
    while (!is_over) {
      const bool is_answered = send_all();
      std::unique_lock lock(shared_->mutex);
      if (!shared_->is_over()) wait(lock, is_answered);
      is_over = shared_->is_over();
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->is_done = true;
    shared_->changed.notify_all();
  }

 private:
  void wait(std::unique_lock<std::mutex>& lock, bool is_answered) {
    if (shared_->end) {
      shared_->changed.wait_for(lock, kLastRetryInterval);
      return;
    }
    shared_->changed.wait_for(lock, interval_, [&] { return shared_->end.has_value(); });
    interval_ = is_answered ? kSendInterval : std::min(2 * interval_, kRetryIntervalMax);
  }

  ServerAnswer ask(const HttpRequest& request) {
    auto deadline = Deadline::after(kRequestTimeout);
    {
      const std::lock_guard lock(shared_->mutex);
      const auto& end = shared_->end;
      if (end && end->deadline.time() < deadline.time()) deadline = end->deadline;
    }
    return read_answer(shared_->client.exchange(request, deadline));
  }

  /// Without the lock: a log that blocks must not stop the training.
  void say(LogLevel level, const std::string& text) {
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->is_abandoned) return;
    }
    write_log(log_, level, name_ + ": " + text);
  }

  void report_outage(const std::string& problem) {
    if (is_out_) return;
    is_out_ = true;
    say(LogLevel::warn, problem + "; the training goes on, and points are kept until it answers");
  }

  void report_answer() {
    if (is_out_) say(LogLevel::info, "it answers again");
    is_out_ = false;
  }

  void report_refusal(const std::string& what, const std::string& problem) {
    if (is_refusal_told_) return;
    is_refusal_told_ = true;
    say(LogLevel::warn, "it refuses " + what + ", left out from now on: " + problem);
  }

  void report_dropped() {
    if (is_drop_told_) return;
    is_drop_told_ = true;
    say(LogLevel::warn, "the oldest points of steps are dropped: more than " +
                            std::to_string(Backlog::kStepPointsMax) + " wait for it to answer");
  }

  /// False if the server cannot serve now.
  bool set_up() {
    if (setup_.is_ready()) return true;
    while (!setup_.is_ready()) {
      const ServerAnswer answer = ask(setup_.request());
      const std::string problem = setup_.take(answer);
      if (setup_.is_refused()) {
        say(LogLevel::warn,
            "the server refuses a run: " + problem + "; the training continues without MLflow");
        const std::lock_guard lock(shared_->mutex);
        shared_->has_given_up = true;
        return false;
      }
      if (!problem.empty()) {
        report_outage(problem);
        return false;
      }
      report_answer();
      if (setup_.is_ready() && answer.verdict == Verdict::refused) {
        report_refusal("parameters and tags", answer.problem);
      }
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->backlog.skip(setup_.last_steps());
    shared_->tracking_id = setup_.tracking_id();
    return true;
  }

  /// What there is to send now: points, then the status if the training is over.
  struct Work {
    Backlog::Batch batch;
    std::optional<End> end;
    bool has_dropped = false;
  };
  Work take_work() {
    const std::lock_guard lock(shared_->mutex);
    return {shared_->backlog.first(kMetricsMax), shared_->end, shared_->backlog.has_dropped()};
  }

  /// False if the server cannot serve now.
  bool send_all() {
    if (!set_up()) return false;
    while (true) {
      const Work work = take_work();
      if (work.has_dropped) report_dropped();
      const auto& points = work.batch.points;
      if (points.empty() && !work.end) return true;
      const std::string& run = setup_.mlflow_run();
      const ServerAnswer answer =
          ask(points.empty() ? update_run(run, work.end->status, work.end->milliseconds)
                             : log_points(run, points));
      if (answer.verdict == Verdict::unavailable || answer.verdict == Verdict::denied) {
        report_outage(answer.problem);
        return false;
      }
      report_answer();
      if (answer.verdict == Verdict::refused) {
        report_refusal(points.empty() ? "the status of the run" : "points", answer.problem);
      }
      const std::lock_guard lock(shared_->mutex);
      shared_->backlog.remove(work.batch);
      shared_->is_complete = points.empty();
      // A last, partial batch: what comes while it is sent goes with the next one.
      const bool is_last = points.size() < kMetricsMax && !shared_->end;
      if (shared_->is_complete || is_last) return true;
    }
  }

  const std::string name_;
  const std::shared_ptr<Shared> shared_;
  MlflowSetup setup_;
  const ddprun::Log log_;
  std::chrono::seconds interval_ = kSendInterval;  ///< to the next look, or attempt
  bool is_out_ = false;
  bool is_refusal_told_ = false;
  bool is_drop_told_ = false;
};

MlflowSender::MlflowSender(ServerAddress server, const std::string& authorization,
                           RunDescription description, Backlog backlog, ddprun::Log log)
    : name_("MLflow at " + server.uri),
      log_(std::move(log)),
      shared_(std::make_shared<Shared>(std::move(server), authorization)) {
  shared_->backlog = std::move(backlog);
  shared_->tracking_id = description.tracking_id;
  auto conversation = std::make_shared<Conversation>(name_, shared_, std::move(description), log_);
  thread_ = start_quiet_thread([conversation] { conversation->run(); });
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
  return {{"tracking_id", shared_->tracking_id}, {"points", shared_->backlog.to_json()}};
}

void MlflowSender::finish(RunStatus status, std::chrono::milliseconds limit) {
  const Left left = stop(status, limit);
  if (left.is_nothing) return;
  write_log(log_, LogLevel::warn,
            name_ + ": " + std::to_string(left.points) +
                " points and how the training ended were not sent");
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
  shared_->is_abandoned = !has_ended;
  const Left left = {shared_->is_complete || shared_->has_given_up, shared_->backlog.size()};
  lock.unlock();
  if (has_ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
  return left;
}

}  // namespace trainer
