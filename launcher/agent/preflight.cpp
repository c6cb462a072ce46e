#include "launcher/agent/preflight.hpp"

#include "launcher/agent/emit.hpp"
#include "launcher/agent/preflight_verdict.hpp"
#include "launcher/agent/store_users.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/preflight_limits.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/store/store_server.hpp"

#include <csignal>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;
namespace fs = std::filesystem;

namespace {

constexpr const char* kPreflightFolder = "preflight";
// Above the size of the largest report.
constexpr std::size_t kPreflightReportBytesMax = 64U << 10;

/// Returns the plan of the check: as the run's, but with other programs and without console output.
/// The processes use their own store on this node, since the node has not joined the run yet. Their
/// folder is inside the run's, and is kept or removed with it.
LaunchPlan plan_of_check(const AttemptContext& context) {
  LaunchPlan plan = context.plan;
  plan.log_dir = context.folder.path();
  plan.is_log_dir_temporary = false;
  plan.run_folder_name = kPreflightFolder;
  plan.nodes.reset();
  plan.worker_store_port.reset();
  plan.store_host = "127.0.0.1";
  plan.store_port = 0;
  plan.options.stdin_worker = {.is_automatic = false};
  plan.options.max_restarts = 0;
  plan.stacks.when = StacksWhen::never;
  for (auto& worker : plan.workers) {
    worker.standard_output = worker.standard_error = StreamTarget::file;
  }
  return plan;
}

std::optional<PreflightReport> read_report(const HeldPath& path) {
  const auto file = path.open_regular(O_RDONLY);
  if (file.get() < 0) return std::nullopt;
  return preflight_report_from(read_at_most(file.get(), kPreflightReportBytesMax));
}

/// Passes on warnings only: the other events of the check are not part of the run.
class WarningsOnly : public EventSink {
 public:
  explicit WarningsOnly(EventSink& events) : events_(events) {}
  void take(const Event& event, std::chrono::system_clock::time_point when) override {
    if (std::holds_alternative<Warning>(event)) events_.take(event, when);
  }

 private:
  EventSink& events_;
};

}  // namespace

class Preflight::Impl {
 public:
  explicit Impl(const AttemptContext& context)
      : context_(context),
        plan_(plan_of_check(context)),
        folder_(context.folder, kPreflightFolder),
        events_(context.events),
        limit_(context.executor) {
    // The program does not follow symbolic links.
    std::error_code error;
    auto folder = fs::weakly_canonical(folder_.path(), error);
    if (error) folder = folder_.path();
    for (auto& worker : plan_.workers)
      worker.arguments = {plan_.preflight->string(), folder / report_file(worker.local_rank)};
  }

  asio::awaitable<std::optional<RunFinished>> run() {
    const auto start = std::chrono::steady_clock::now();
    report(PreflightStarted{.workers = workers()});
    AttemptEnd end = co_await run_check();
    if (stop_signal_ != 0) {
      co_return finish(RunResult::interrupted, "interrupted by " + signal_name(stop_signal_));
    }
    if (end.not_started) co_return finish(RunResult::not_started, end.not_started->message);
    if (const auto objection = judge(end, start)) co_return finish(RunResult::unfit, *objection);
    co_return std::nullopt;
  }

  void stop(int signal) {
    if (stop_signal_ == 0) stop_signal_ = signal;
    // The programs have no state to save.
    if (check_ != nullptr) check_->stop(SIGKILL, std::chrono::milliseconds(0));
  }

 private:
  int workers() const { return static_cast<int>(plan_.workers.size()); }

  static std::string report_file(int local_rank) { return "report_" + std::to_string(local_rank); }

  asio::awaitable<AttemptEnd> run_check() {
    StoreServer store(context_.executor, {.address = plan_.store_host,
                                          .log = warnings_to(context_.events),
                                          .admits_user = store_users(plan_, context_.containment)});
    store.start();
    const AttemptContext own{context_.executor,    plan_,           folder_,
                             context_.containment, context_.router, events_};
    Attempt attempt(
        own, {.placement = single_node_placement(plan_), .store_port = store.endpoint().port}, {});
    check_ = &attempt;
    limit_.start(RunClock::now() + kPreflightLimit, [this] {
      is_over_time_ = true;
      check_->stop(SIGKILL, std::chrono::milliseconds(0));
    });
    AttemptEnd end = co_await attempt.run();
    limit_.cancel();
    check_ = nullptr;
    co_return end;
  }

  /// Reports each device. Returns why no worker may be started.
  Problem judge(const AttemptEnd& end, std::chrono::steady_clock::time_point start) {
    PreflightOutcome outcome{
        .exits = end.exits, .is_over_time = is_over_time_, .limit = kPreflightLimit};
    for (const auto& worker : plan_.workers)
      outcome.reports.push_back(read_report(folder_.file(report_file(worker.local_rank))));
    const auto devices = judge_devices(outcome);
    for (const auto& device : devices) report(device);
    auto objection = objection_to_start(devices, workers());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    report(PreflightEnded{.seconds = seconds.count(),
                          .summary = objection ? std::string() : summary_of(devices)});
    return objection;
  }

  RunFinished finish(RunResult result, const std::string& reason) {
    RunFinished finished{.result = result, .reason = reason};
    finished.exit_code = exit_code_for(result, plan_.options.exit_code, {}, stop_signal_);
    return finished;
  }

  void report(const Event& event) { emit(context_.events, event); }

  const AttemptContext& context_;
  LaunchPlan plan_;
  RunFolder folder_;
  WarningsOnly events_;
  LimitTimer limit_;
  Attempt* check_ = nullptr;  ///< null unless the check is in progress
  bool is_over_time_ = false;
  int stop_signal_ = 0;
};

Preflight::Preflight(const AttemptContext& context) : impl_(std::make_unique<Impl>(context)) {}

Preflight::~Preflight() = default;

asio::awaitable<std::optional<RunFinished>> Preflight::run() {
  return impl_->run();
}

void Preflight::stop(int signal) {
  impl_->stop(signal);
}

}  // namespace ddprun
