// Routes the workers' output to the console and to files. Files receive every byte unchanged. The
// console receives whole lines with a prefix, at the rate that it accepts: workers wait for a slow
// console. If the console accepts nothing for some time (a stopped terminal, a full pipe), lines
// are dropped, counted and reported. Runs on the agent's thread.
#pragma once

#include "launcher/output/open_lines.hpp"
#include "launcher/plan/launch_plan.hpp"
#include "launcher/plan/line_prefix.hpp"
#include "rendezvous/base/held_path.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// How the console shows a stream.
enum class ConsoleForm {
  lines,          ///< whole lines with prefix; last states of progress bars
  verbatim,       ///< unchanged; whole lines if other sources write to the console
  verbatim_bytes  ///< unchanged, each byte immediately
};

/// Destinations of one stream of one worker.
struct StreamSpec {
  StreamTarget target = StreamTarget::console;
  bool is_shown = true;  ///< false hides it on the console with any target
  LinePrefix prefix;     ///< prefix of console lines, such as "[default0]:"
  ConsoleForm form = ConsoleForm::lines;
  HeldPath file;  ///< file for targets file and tee; its folder exists
  /// Texts for tee. Lines that contain any of these texts are also written to `filtered_file`,
  /// which several streams share.
  std::vector<std::string> filters{};
  HeldPath filtered_file{};
};

/// One of a worker's two streams.
enum class StreamKind { standard_output, standard_error };

class WorkerStream;

class OutputRouter {
 public:
  /// Descriptors of the console's two streams. They are not owned. Their flags are not changed,
  /// because they are shared with the shell.
  struct Console {
    int standard_output = 1;
    int standard_error = 2;
    /// True if the terminals among the two support the usual escape sequences.
    bool can_redraw = false;
  };

  OutputRouter(boost::asio::any_io_executor executor, Console console, Log log = {});
  /// Discards output that the console has not accepted, and waits for log files like drain().
  ~OutputRouter();

  /// Opens the file, if any, and a pipe. Throws Error{Errc::system} that names the file.
  std::shared_ptr<WorkerStream> open(const StreamSpec& spec, StreamKind kind);

  /// Adds the agent's lines, each with its newline, to the output on standard error.
  void write(std::string_view lines);

  /// Returns the size of the terminal that shows workers' lines of this kind; nullopt if it is not
  /// a terminal.
  std::optional<TerminalSize> terminal_size(StreamKind kind) const;

  /// Prepares for the use of the terminal by another program. Nothing is redrawn until the next
  /// output.
  void leave_terminal();

  /// Returns true if output is missing from a log file, or from a stream of the console; see
  /// ConsoleWriter.
  bool has_lost_output() const;

  /// Waits until log files have been written or their file system has accepted nothing for
  /// kLogPatience, and then until the console has accepted all output or the deadline has passed.
  /// Called at the end of the run.
  boost::asio::awaitable<void> drain(Deadline deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
