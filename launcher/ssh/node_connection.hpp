// The connection to one node on the starting machine: the process that starts the node's agent,
// which is ssh or, on this machine, ddprun itself. Includes Asio; only for .cpp files.
// Single-threaded.
#pragma once

#include "launcher/ssh/child_process.hpp"
#include "launcher/ssh/greeting_reader.hpp"
#include "launcher/ssh/held_line.hpp"
#include "launcher/ssh/node_console.hpp"
#include "rendezvous/base/async_condition.hpp"

#include <boost/asio/steady_timer.hpp>

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::ssh {

/// How the connection to a node ended.
struct ConnectionEnd {
  enum class Kind {
    not_started,  ///< the agent did not start
    ended,        ///< the agent ended with `exit_code`
    lost,         ///< the connection ended first
  };
  Kind kind = Kind::lost;
  std::string reason{};  ///< for the operator, unless the agent ended
  int exit_code = 0;     ///< agent's exit code, or the negated signal that killed it
};

class NodeConnection {
 public:
  /// `request` runs `program`, which should be ddprun, on the node.
  NodeConnection(const boost::asio::any_io_executor& executor, NodeConsole& console,
                 std::uint32_t node, ProcessRequest request, std::string program);

  /// Opens the connection, sends `message` (see framed()) and shows the node's output on the
  /// console. Calls `on_started` when the agent has started. Returns when the connection has ended.
  boost::asio::awaitable<ConnectionEnd> run(std::string message, std::function<void()> on_started);

  /// Sends a signal to the agent. A signal before the start of the agent follows the message.
  void signal(int number);

  /// Closes a connection whose agent has not started, because the run is over.
  void cancel_start();

  /// Kills the process; the agent leaves the run when it detects the end of the connection.
  void kill() { process_.signal(SIGKILL); }

 private:
  enum class GiveUp { no_answer, run_is_over, not_ddprun };

  boost::asio::awaitable<void> run_process();
  boost::asio::awaitable<void> write();
  boost::asio::awaitable<void> read_output(std::string_view bytes);
  boost::asio::awaitable<void> read_error(std::string_view bytes);
  void show_error(const std::string& bytes);
  void limit_rest();
  void give_up(GiveUp reason);
  ConnectionEnd end();
  std::string describe(GiveUp reason) const;

  boost::asio::any_io_executor executor_;
  ChildProcess process_;
  NodeConsole& console_;
  const std::uint32_t node_;
  const ProcessRequest request_;  ///< request whose environment is that of this process
  const std::string program_;
  std::function<void()> on_started_;
  std::string outgoing_;
  bool has_ended_ = false;
  AsyncCondition changed_;           ///< outgoing_ or has_ended_ has changed
  boost::asio::steady_timer limit_;  ///< of the start, then of output after the agent's exit
  GreetingReader greeting_;
  HeldLine held_line_;
  std::optional<GiveUp> give_up_;
  int exit_code_ = 0;  ///< exit code of the process
};

}  // namespace ddprun::ssh
