#include "launcher/process/exec_failure.hpp"
#include "launcher/process/worker_environment.hpp"
#include "launcher/ssh/child.hpp"
#include "launcher/ssh/child_process.hpp"
#include "launcher/ssh/command.hpp"
#include "launcher/ssh/ssh_words.hpp"
#include "rendezvous/base/text.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <csignal>
#include <set>
#include <utility>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

/// To log in and to start ddprun there. ssh's own limit is for the connection alone.
constexpr auto kAnswerLimit = 60s;

class RelayChild : public Child {
 public:
  RelayChild(const asio::any_io_executor& executor, ReportSink& sink, const std::string& ssh,
             const RelayTask& task)
      : executor_(executor),
        process_(executor),
        sink_(sink),
        target_(task.targets.front()),
        settings_(task.ssh),
        command_(ssh_command(ssh, task.ssh, target_.destination)),
        outgoing_(framed(encode(task))),
        news_(executor, asio::steady_timer::time_point::max()),
        answer_(executor) {
    for (const auto& target : task.targets) open_.insert(target.node);
  }

  asio::awaitable<void> run() override {
    const ProcessRequest request{.arguments = command_, .environment = own_environment()};
    const auto failure = co_await process_.start(request, -1);
    if (failure) {
      end_all(NodeReport::Kind::not_started, describe_start_failure(*failure, command_[0], ""));
      co_return;
    }
    answer_.expires_after(kAnswerLimit);
    answer_.async_wait([this](boost::system::error_code error) {
      if (!error) give_up("it did not answer within 60 s");
    });
    auto reading = asio::co_spawn(executor_, run_process(), asio::deferred);
    auto writing = asio::co_spawn(executor_, write(), asio::deferred);
    auto both = asio::experimental::make_parallel_group(std::move(reading), std::move(writing));
    auto ended = co_await both.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
    for (const auto& problem : {std::get<1>(ended), std::get<2>(ended)}) {
      if (problem) std::rethrow_exception(problem);
    }
    tell_end();
  }

  void signal(int number) override {
    outgoing_ += static_cast<char>(number);
    news_.cancel();
  }

  void stop_calling() override {
    // Whatever may have begun there ends with the connection.
    if (!reader_.has_greeting()) give_up("the run was stopped before it answered");
  }

  void hang_up() override {
    is_hung_up_ = true;
    news_.cancel();
  }

  void kill() override { process_.signal(SIGKILL); }

 private:
  asio::awaitable<void> run_process() {
    auto running = process_.run([this](std::string_view bytes) { return take_reports(bytes); },
                                [this](std::string_view bytes) { return take_error(bytes); });
    exit_code_ = co_await std::move(running);
    answer_.cancel();
    hang_up();
  }

  /// The task, then a byte for each signal.
  asio::awaitable<void> write() {
    boost::system::error_code error;
    while (!error && (!outgoing_.empty() || !is_hung_up_)) {
      if (outgoing_.empty()) {
        co_await news_.async_wait(asio::redirect_error(asio::use_awaitable, error));
        error = {};
        continue;
      }
      const auto bytes = std::exchange(outgoing_, {});
      co_await asio::async_write(process_.input(), asio::buffer(bytes),
                                 asio::redirect_error(asio::use_awaitable, error));
    }
    // Its end is what tells the other side that nobody is here any more.
    boost::system::error_code ignored;
    process_.input().close(ignored);
  }

  asio::awaitable<void> take_reports(std::string_view bytes) {
    auto reports = reader_.take(bytes);
    auto noise = reader_.take_noise();
    if (!noise.empty()) report(NodeReport::Kind::standard_error, std::move(noise));
    if (reader_.has_greeting()) {
      answer_.cancel();
      report_error(ssh_words_.take_rest());
    }
    if (reader_.is_broken()) give_up("what it says is not ddprun's");
    for (auto& each : reports) pass_on(std::move(each));
    co_await sink_.room();
  }

  void pass_on(NodeReport each) {
    // Nobody speaks for nodes that are not his.
    if (!open_.contains(each.node)) return;
    const bool is_end = each.kind == NodeReport::Kind::ended ||
                        each.kind == NodeReport::Kind::not_started ||
                        each.kind == NodeReport::Kind::lost;
    if (is_end) open_.erase(each.node);
    sink_.take(std::move(each));
  }

  asio::awaitable<void> take_error(std::string_view bytes) {
    // Afterwards nothing is told that repeats it.
    report_error(reader_.has_greeting() ? std::string(bytes) : ssh_words_.take(bytes));
    co_await sink_.room();
  }

  void give_up(const std::string& reason) {
    if (reason_.empty()) reason_ = reason;
    kill();
  }

  void tell_end() {
    if (reader_.has_greeting()) {
      const auto reason = reason_.empty() ? "the connection by ssh has ended" : reason_;
      return end_all(NodeReport::Kind::lost, reason);
    }
    if (!reason_.empty()) {
      report_error(ssh_words_.take_rest());
      return end_all(NodeReport::Kind::not_started, reason_);
    }
    end_all(NodeReport::Kind::not_started,
            describe_no_answer(exit_code_, ssh_words_.last(), settings_));
  }

  /// For all of its nodes whose end has not been told.
  void end_all(NodeReport::Kind kind, const std::string& reason) {
    for (const auto node : std::exchange(open_, {})) {
      const bool is_own = node == target_.node;
      sink_.take({.kind = kind,
                  .node = node,
                  .text = is_own ? reason : "it was to be reached by " + target_.name});
    }
  }

  void report_error(std::string text) {
    if (!text.empty()) report(NodeReport::Kind::standard_error, std::move(text));
  }

  void report(NodeReport::Kind kind, std::string text) {
    sink_.take({.kind = kind, .node = target_.node, .text = std::move(text)});
  }

  asio::any_io_executor executor_;
  ChildProcess process_;
  ReportSink& sink_;
  const Target target_;
  const SshSettings settings_;
  const std::vector<std::string> command_;
  std::string outgoing_;
  bool is_hung_up_ = false;
  asio::steady_timer news_;    ///< cancelled when there is something to write
  asio::steady_timer answer_;  ///< expires when there was no greeting in time
  ReportReader reader_;
  SshWords ssh_words_;            ///< until there is a greeting
  std::set<std::uint32_t> open_;  ///< nodes of which no end has been told
  std::string reason_;            ///< why it was given up
  int exit_code_ = 0;
};

}  // namespace

std::unique_ptr<Child> make_relay_child(asio::any_io_executor executor, ReportSink& sink,
                                        const std::string& ssh, RelayTask task) {
  return std::make_unique<RelayChild>(executor, sink, ssh, task);
}

}  // namespace ddprun::ssh
