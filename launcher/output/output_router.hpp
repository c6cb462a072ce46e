// Takes the workers' output to the console and to files. The file is primary and gets every byte
// unchanged; the console is best effort and gets whole lines with a prefix. A console that takes
// its output slowly is waited for; one that takes none for a while (a stopped terminal, a full
// pipe) loses lines, which are counted and told of, and holds up no worker. Runs on the agent's one
// thread.
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
  lines,          ///< whole lines with the prefix, of progress bars the last state
  verbatim,       ///< unchanged, in whole lines as far as others write there, too
  verbatim_bytes  ///< unchanged, and each byte at once
};

/// What becomes of one stream of one worker.
struct StreamSpec {
  StreamTarget target = StreamTarget::console;
  bool is_shown = true;  ///< false: not on the console even if the target says so
  LinePrefix prefix;     ///< of each line on the console, e.g. "[default0]:"
  ConsoleForm form = ConsoleForm::lines;
  HeldPath file;  ///< for file and tee; its folder exists
  /// For tee: lines that contain one of these texts also go to `filtered_file`, which other streams
  /// share.
  std::vector<std::string> filters{};
  HeldPath filtered_file{};
};

/// Which of its two streams.
enum class StreamKind { standard_output, standard_error };

class WorkerStream;

class OutputRouter {
 public:
  /// Descriptors of the console's two streams. They stay the caller's and keep their flags: they
  /// are shared with the shell.
  struct Console {
    int standard_output = 1;
    int standard_error = 2;
    /// True: those of the two that are terminals understand the usual escape sequences.
    bool can_redraw = false;
  };

  OutputRouter(boost::asio::any_io_executor executor, Console console, Log log = {});
  ~OutputRouter();  ///< what the console has not taken by now is lost; waits for log files as
                    ///< drain()

  /// Opens the file, if there is to be one, and a pipe. Throws Error{Errc::system} naming the file.
  std::shared_ptr<WorkerStream> open(const StreamSpec& spec, StreamKind kind);

  /// Puts the agent's own lines, each with its newline, among the workers' on standard error.
  void write(std::string_view lines);

  /// Of the terminal that workers' lines of this kind go to; nothing if it is none.
  std::optional<TerminalSize> terminal_size(StreamKind kind) const;

  /// The terminal is about to be another program's: nothing is drawn over until the next output.
  void leave_terminal();

  /// Whether one of the console's streams has refused output that somebody may want.
  bool has_lost_output() const;

  /// Waits until log files have been written, or their file system takes nothing for kLogPatience;
  /// then until the console has taken what it is to get, or the deadline passes. For the end of the
  /// run.
  boost::asio::awaitable<void> drain(Deadline deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
