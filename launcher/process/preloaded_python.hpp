// A Python interpreter that has imported modules once, and of which workers are forked: they start
// without importing these modules, and share the memory of them. The interpreter runs preload.py.
// Runs on the agent's thread.
#pragma once

#include "launcher/output/output_router.hpp"
#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/containment.hpp"
#include "launcher/process/limited_wait.hpp"
#include "launcher/process/process_start.hpp"
#include "launcher/process/worker_process.hpp"
#include "rendezvous/base/held_path.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// Command line and environment of the interpreter.
struct PreloadRequest {
  std::vector<std::string> arguments;   ///< of any worker; the program's name first
  std::set<std::string> own_variables;  ///< names of variables that differ between workers
  /// Environment of any worker, which may contain own variables.
  std::vector<std::string> environment;
  HeldPath folder;                   ///< for a file during the start of the interpreter
  std::uint64_t open_files_max = 0;  ///< see ProcessRequest
};

class PreloadedPython {
 public:
  /// Logs the imports with level info, and with level warn why workers start without them. The
  /// references outlive this object, and this object its coroutines.
  PreloadedPython(boost::asio::any_io_executor executor, Containment& containment,
                  OutputRouter& router, const PreloadPlan& plan, Log log);
  ~PreloadedPython();  ///< kills the interpreter; waits at most 1 s for its end

  PreloadedPython(const PreloadedPython&) = delete;
  PreloadedPython& operator=(const PreloadedPython&) = delete;

  /// Starts the interpreter, unless it runs and the files of its modules are unchanged, and waits
  /// until it has imported the modules, or until interrupt(). Returns false if the workers must be
  /// started without it.
  boost::asio::awaitable<bool> prepare(PreloadRequest request);

  /// Forks a worker, after prepare() has returned true. The worker enters the cgroup, CPUs,
  /// streams, descriptor, arguments and environment of the request; the other fields are those of
  /// the interpreter. It starts its program once end_forks() has returned.
  boost::asio::awaitable<std::variant<ForkedProcess, StartFailure>> fork(
      const ProcessRequest& request);

  /// Makes this process the parent of the forked workers.
  boost::asio::awaitable<void> end_forks();

  /// Ends the interpreter; workers start without it from now on. Logs the reason.
  void give_up(const std::string& reason);

  /// Ends the waits of prepare(), which then returns false.
  void interrupt();

 private:
  struct Message {
    std::string kind;  ///< empty: the interpreter has ended or does not answer
    std::vector<std::string> fields;
  };
  enum class Imports { done, unsafe, failed };
  class HookFile;

  /// Finds the modules unless they are given. Returns false if the interpreter does not run the
  /// hook: started with the program, it would then run the program.
  boost::asio::awaitable<bool> probe(const PreloadRequest& request);
  boost::asio::awaitable<Imports> import_modules(const PreloadRequest& request);
  void drop_from(const std::string& module, const std::string& reason);
  boost::asio::awaitable<bool> is_current();
  bool launch(const PreloadRequest& request, std::vector<std::string> arguments,
              const HookFile& hook);
  bool send(const std::vector<std::string>& fields, const std::vector<int>& descriptors = {});
  boost::asio::awaitable<Message> receive(Deadline::Duration limit);
  bool is_late(const Message& message) const;
  bool try_to_launch(const PreloadRequest& request, std::vector<std::string> arguments,
                     const HookFile& hook);
  void give_up_because(const Message& message, const std::string& otherwise);
  void stop() noexcept;
  std::string program_of(const PreloadRequest& request) const;
  const char* kind_of_program() const;

  boost::asio::any_io_executor executor_;
  Containment& containment_;
  OutputRouter& router_;
  const PreloadPlan& plan_;
  Log log_;
  LimitedWait wait_;
  std::vector<std::string> modules_;
  std::optional<WorkerProcess> process_;  ///< nullopt: not running
  std::shared_ptr<WorkerStream> standard_output_;
  std::shared_ptr<WorkerStream> standard_error_;
  UniqueFd socket_;
  Deadline imports_end_ = Deadline::after({});
  int failed_forks_ = 0;
  bool has_probed_ = false;
  bool is_given_up_ = false;
  bool is_interrupted_ = false;
  bool is_forking_ = false;
};

}  // namespace ddprun
