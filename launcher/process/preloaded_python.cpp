#include "launcher/process/preloaded_python.hpp"

#include "launcher/output/worker_stream.hpp"
#include "launcher/process/exec_failure.hpp"
#include "launcher/process/memory_file.hpp"
#include "launcher/process/preload_source.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Imports from a slow network file system take minutes, for workers without preloading, too.
constexpr auto kImportLimit = 10min;
// A longer import of one module is reported.
constexpr std::chrono::seconds kSlowImport{10};
// The interpreter reads the program and compiles it.
constexpr auto kFindLimit = 60s;
// A fork takes milliseconds; stat() of a module's file may hang.
constexpr auto kForkLimit = 30s;
constexpr auto kInterpreterEndLimit = 1s;

constexpr int kFailedForksMax = 2;

constexpr const char* kSocketVariable = "DDPRUN_PRELOAD";
constexpr const char* kHookFile = "sitecustomize.py";
constexpr const char* kHookCache = "__pycache__";
// Program of an interpreter that has not run the hook.
constexpr const char* kWithoutHook = "pass";
constexpr std::size_t kPacketBytesMax = 1U << 16;
constexpr std::size_t kDescriptorsMax = 16;
constexpr const char* kNullDevice = "/dev/null";
constexpr const char* kPath = "PYTHONPATH=";

}  // namespace

/// The hook's file while the interpreter starts.
class PreloadedPython::HookFile {
 public:
  explicit HookFile(const HeldPath& folder) : folder_(folder) {
    const auto file = (folder / kHookFile).open(O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
    is_written_ = ::write(file.get(), kPreloadSource.data(), kPreloadSource.size()) ==
                  static_cast<ssize_t>(kPreloadSource.size());
  }
  ~HookFile() {
    std::error_code ignored;
    fs::remove(folder_.path() / kHookFile, ignored);
    fs::remove_all(folder_.path() / kHookCache, ignored);
  }
  HookFile(const HookFile&) = delete;
  HookFile& operator=(const HookFile&) = delete;

  bool is_written() const { return is_written_; }

 private:
  const HeldPath& folder_;
  bool is_written_ = false;
};

namespace {

/// Returns the environment without the workers' own variables and with the hook in PYTHONPATH.
std::vector<std::string> interpreter_environment(const PreloadRequest& request,
                                                 const fs::path& folder, int socket) {
  std::string path = kPath + folder.string();
  std::vector<std::string> environment;
  for (const auto& variable : request.environment) {
    if (request.own_variables.contains(variable.substr(0, variable.find('=')))) continue;
    if (variable.starts_with(kPath)) {
      const auto value = variable.substr(std::strlen(kPath));
      if (!value.empty()) path += ":" + value;
    } else {
      environment.push_back(variable);
    }
  }
  environment.push_back(std::move(path));
  environment.push_back(std::string(kSocketVariable) + "=" + std::to_string(socket) + ":" +
                        std::to_string(::getpid()));
  return environment;
}

/// Returns a file with each text and a NUL; no descriptor on failure.
UniqueFd file_of(const std::vector<std::string>& arguments, std::size_t skipped,
                 const std::vector<std::string>& environment) {
  std::string bytes;
  const auto add = [&bytes](const std::string& text) {
    bytes.append(text.c_str(), text.size() + 1);
  };
  std::for_each(arguments.begin() + static_cast<std::ptrdiff_t>(skipped), arguments.end(), add);
  std::for_each(environment.begin(), environment.end(), add);
  return memory_file("ddprun-worker", bytes);
}

std::string joined(const std::vector<int>& numbers) {
  std::vector<std::string> words;
  words.reserve(numbers.size());
  for (const int number : numbers) words.push_back(std::to_string(number));
  return join(words, ",");
}

/// Returns "a", "a and b" or "a, b and 3 more".
std::string names_of(const std::vector<std::string>& imports, const char* ends) {
  constexpr std::size_t kShownMax = 6;
  std::vector<std::string> names;
  for (const auto& import : imports) {
    auto name = import.substr(0, import.find_first_of(ends));
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  if (names.size() > kShownMax) {
    const auto more = std::to_string(names.size() - kShownMax) + " more";
    names.resize(kShownMax);
    names.push_back(more);
  }
  if (names.size() == 1) return names.front();
  const auto last = names.back();
  names.pop_back();
  return join(names, ", ") + " and " + last;
}

}  // namespace

PreloadedPython::PreloadedPython(asio::any_io_executor executor, Containment& containment,
                                 OutputRouter& router, const PreloadPlan& plan, Log log)
    : executor_(std::move(executor)),
      containment_(containment),
      router_(router),
      plan_(plan),
      log_(std::move(log)),
      wait_(executor_),
      modules_(plan.modules) {}

PreloadedPython::~PreloadedPython() {
  stop();
}

asio::awaitable<bool> PreloadedPython::prepare(PreloadRequest request) {
  is_interrupted_ = false;
  if (is_given_up_) co_return false;
  if (!containment_.is_parent_of_orphans()) {
    give_up("ddprun cannot become their parent (PR_SET_CHILD_SUBREAPER)");
    co_return false;
  }
  imports_end_ = Deadline::after(kImportLimit);
  if (process_) {
    auto checking = is_current();
    if (co_await std::move(checking)) co_return true;
    stop();
    has_probed_ = false;
  }
  if (!has_probed_) {
    auto probing = probe(request);
    if (!co_await std::move(probing)) co_return false;
  }
  auto imports = Imports::unsafe;
  while (imports == Imports::unsafe && !modules_.empty()) {
    auto importing = import_modules(request);
    imports = co_await std::move(importing);
  }
  co_return imports == Imports::done;
}

asio::awaitable<bool> PreloadedPython::probe(const PreloadRequest& request) {
  const auto program = static_cast<std::ptrdiff_t>(plan_.interpreter_words);
  std::vector<std::string> arguments(request.arguments.begin(),
                                     request.arguments.begin() + program);
  arguments.insert(arguments.end(), {"-c", kWithoutHook});
  const HookFile hook(request.folder);
  if (!launch(request, arguments, hook)) co_return false;
  const bool is_automatic = plan_.modules.empty();
  send({"find", is_automatic ? program_of(request) : "", kind_of_program()});
  auto receiving = receive(kFindLimit);
  auto answer = co_await std::move(receiving);
  if (answer.kind != "imports") {
    give_up_because(answer,
                    "the interpreter does not read PYTHONPATH (-I, -E, -S, or a program that "
                    "starts it)");
    co_return false;
  }
  stop();
  has_probed_ = true;
  if (is_automatic && !answer.fields.empty()) {
    if (const auto& end = answer.fields.front(); !end.empty()) {
      write_log(log_, LogLevel::info,
                "--preload: auto ends at " + printable(end) +
                    ", which may affect the following imports; --preload=MODULE,... preloads them");
    }
    modules_.assign(answer.fields.begin() + 1, answer.fields.end());
  }
  if (modules_.empty()) give_up("no modules to preload were found at the beginning of the program");
  co_return !is_given_up_;
}

asio::awaitable<PreloadedPython::Imports> PreloadedPython::import_modules(
    const PreloadRequest& request) {
  const HookFile hook(request.folder);
  if (!launch(request, request.arguments, hook)) co_return Imports::failed;
  const bool is_automatic = plan_.modules.empty();
  send({"import", program_of(request), kind_of_program(), is_automatic ? "quiet" : "report",
        join({request.own_variables.begin(), request.own_variables.end()}, ","),
        join(modules_, " ")});
  std::string module;
  bool is_slow = false;
  while (true) {
    const auto left = imports_end_.remaining();
    auto receiving = receive(is_slow ? left : std::min<Deadline::Duration>(left, kSlowImport));
    const auto message = co_await std::move(receiving);
    if (is_late(message) && !is_slow && !imports_end_.passed()) {
      is_slow = true;
      write_log(log_, LogLevel::warn,
                "--preload: still importing " + printable(module) + " after " +
                    std::to_string(kSlowImport.count()) + " s");
    } else if (message.kind == "importing" && !message.fields.empty()) {
      module = message.fields[0];
      is_slow = false;
    } else if (message.kind == "failed" && message.fields.size() == 2) {
      write_log(log_, LogLevel::warn,
                "--preload: module " + message.fields[0] +
                    " cannot be imported: " + printable(message.fields[1]));
    } else if (message.kind == "unsafe" && message.fields.size() == 2) {
      stop();
      drop_from(message.fields[0], message.fields[1]);
      co_return Imports::unsafe;
    } else if (message.kind == "ready" && message.fields.size() == 1) {
      give_up("no module could be imported");
      co_return Imports::failed;
    } else if (message.kind == "ready" && !message.fields.empty()) {
      const std::vector<std::string> imported(message.fields.begin() + 1, message.fields.end());
      write_log(log_, LogLevel::info,
                "--preload: imported " + names_of(imported, is_automatic ? ".:" : ":") + " in " +
                    printable(message.fields[0]) + " s; workers are forks of process " +
                    std::to_string(process_->pid()));
      co_return Imports::done;
    } else {
      give_up_because(message, "the interpreter ended while it imported modules");
      co_return Imports::failed;
    }
  }
}

/// Drops this module and those after it, which may import it.
void PreloadedPython::drop_from(const std::string& module, const std::string& reason) {
  const auto unsafe = std::find(modules_.begin(), modules_.end(), module);
  if (unsafe == modules_.end()) return give_up("the interpreter reports an unknown module");
  const bool are_others_dropped = std::distance(unsafe, modules_.end()) > 1;
  modules_.erase(unsafe, modules_.end());
  write_log(log_, plan_.modules.empty() ? LogLevel::info : LogLevel::warn,
            "--preload: " + printable(module) + " is not preloaded" +
                (are_others_dropped ? ", nor the modules after it" : "") + ": its import " +
                printable(reason));
  if (modules_.empty()) give_up("no module is left to preload");
}

asio::awaitable<bool> PreloadedPython::is_current() {
  send({"check"});
  auto receiving = receive(kForkLimit);
  const auto answer = co_await std::move(receiving);
  if (answer.kind == "changed" && !answer.fields.empty()) {
    write_log(log_, LogLevel::info,
              "--preload: " + printable(answer.fields[0]) +
                  " has changed: the modules are imported again");
  } else if (answer.kind != "ready" && !is_interrupted_) {
    write_log(log_, LogLevel::warn,
              "--preload: the interpreter " +
                  std::string(is_late(answer) ? "does not answer" : "has ended") +
                  ": the modules are imported again");
  }
  co_return answer.kind == "ready";
}

asio::awaitable<std::variant<ForkedProcess, StartFailure>> PreloadedPython::fork(
    const ProcessRequest& request) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) co_return StartFailure{StartStep::fork, errno};
  UniqueFd status(pipe[0]), status_writer(pipe[1]);
  const UniqueFd null(::open(kNullDevice, O_RDONLY | O_CLOEXEC));
  const auto first_argument = plan_.interpreter_words + (plan_.is_module ? 2 : 1);
  const auto words = file_of(request.arguments, first_argument, request.environment);
  if (null.get() < 0 || words.get() < 0) co_return StartFailure{StartStep::fork, errno};
  std::vector<int> descriptors{words.get(),
                               request.standard_input < 0 ? null.get() : request.standard_input,
                               request.standard_output,
                               request.standard_error,
                               status_writer.get(),
                               request.kept_descriptor};
  if (request.cgroup_fd >= 0) descriptors.push_back(request.cgroup_fd);
  if (!is_forking_) is_forking_ = send({"fork"});
  send({"worker", std::to_string(request.kept_descriptor), std::to_string(request.memory_node),
        std::to_string(SYS_set_mempolicy), joined(request.cpus),
        std::to_string(request.arguments.size() - first_argument),
        plan_.inspects_workers ? request.inspection_socket : ""},
       descriptors);
  status_writer = UniqueFd();
  auto receiving = receive(kForkLimit);
  const auto answer = co_await std::move(receiving);
  const pid_t pid = answer.kind == "pid" && answer.fields.size() == 1
                        ? static_cast<pid_t>(std::strtol(answer.fields[0].c_str(), nullptr, 10))
                        : 0;
  if (pid <= 0) {
    give_up_because(answer, "the interpreter does not fork workers");
    co_return StartFailure{StartStep::fork, ECHILD};
  }
  // The PID is not reused before its parent, which ends without reaping it, has ended.
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd.get() < 0) {
    const int error = errno;
    ::kill(pid, SIGKILL);
    co_return StartFailure{StartStep::fork, error};
  }
  co_return ForkedProcess{.pid = pid, .pidfd = std::move(pidfd), .status = std::move(status)};
}

asio::awaitable<void> PreloadedPython::end_forks() {
  if (!is_forking_) co_return;
  send({"end"});
  auto receiving = receive(kForkLimit);
  const auto answer = co_await std::move(receiving);
  is_forking_ = false;
  if (answer.kind != "done") give_up_because(answer, "the interpreter does not answer");
}

void PreloadedPython::interrupt() {
  is_interrupted_ = true;
  if (!is_forking_) wait_.end();
}

bool PreloadedPython::launch(const PreloadRequest& request, std::vector<std::string> arguments,
                             const HookFile& hook) {
  try {
    return try_to_launch(request, std::move(arguments), hook);
  } catch (const std::exception& error) {  // a pipe or a path
    give_up(error.what());
    return false;
  }
}

bool PreloadedPython::try_to_launch(const PreloadRequest& request,
                                    std::vector<std::string> arguments, const HookFile& hook) {
  std::array<int, 2> sockets{};
  const auto folder = fs::absolute(request.folder.path()).lexically_normal();
  if (folder.string().find(':') != std::string::npos) {
    give_up(folder.string() + ": PYTHONPATH cannot contain folders with a colon");
    return false;
  }
  if (!hook.is_written() ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw_system_error("a file in " + folder.string() + " or a socket", errno);
  }
  socket_ = UniqueFd(sockets[0]);
  const UniqueFd other_end(sockets[1]);
  const StreamSpec stream{.prefix = "[preload]:", .file = kNullDevice};
  standard_output_ = router_.open(stream, StreamKind::standard_output);
  standard_error_ = router_.open(stream, StreamKind::standard_error);
  auto started = WorkerProcess::start(
      executor_, {.arguments = std::move(arguments),
                  .environment = interpreter_environment(request, folder, other_end.get()),
                  .open_files_max = request.open_files_max,
                  .standard_output = standard_output_->worker_end(),
                  .standard_error = standard_error_->worker_end(),
                  .kept_descriptor = other_end.get()});
  standard_output_->close_worker_end();
  standard_error_->close_worker_end();
  if (const auto* failure = std::get_if<StartFailure>(&started)) {
    give_up(describe_start_failure(*failure, request.arguments.front(), ""));
    return false;
  }
  standard_output_->start();
  standard_error_->start();
  process_ = std::move(std::get<WorkerProcess>(started));
  containment_.exclude(process_->pid());
  return true;
}

/// A failure is detected by the missing answer.
bool PreloadedPython::send(const std::vector<std::string>& fields,
                           const std::vector<int>& descriptors) {
  std::string bytes = join(fields, std::string(1, '\0'));
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsMax)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const auto size = descriptors.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  }
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

asio::awaitable<PreloadedPython::Message> PreloadedPython::receive(Deadline::Duration limit) {
  if ((is_interrupted_ && !is_forking_) || socket_.get() < 0) co_return Message{};
  wait_.begin(limit);
  auto waiting = wait_.until_readable(socket_.get());
  if (!co_await std::move(waiting)) co_return Message{};
  std::string packet(kPacketBytesMax, '\0');
  const auto size = ::recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
  if (size <= 0) co_return Message{};
  packet.resize(static_cast<std::size_t>(size));
  std::vector<std::string> fields;
  for (const auto& field : split(packet, '\0')) fields.emplace_back(field);
  auto kind = std::move(fields.front());
  fields.erase(fields.begin());
  co_return Message{std::move(kind), std::move(fields)};
}

/// Returns true if the interpreter runs, but has sent nothing within the limit.
bool PreloadedPython::is_late(const Message& message) const {
  return message.kind.empty() && !is_interrupted_ && wait_.is_over() && process_ &&
         !process_->has_ended();
}

/// Ends the interpreter because of this message, or of a missing one, and gives up unless the wait
/// was interrupted or this is the first failed fork.
void PreloadedPython::give_up_because(const Message& message, const std::string& otherwise) {
  if (is_interrupted_) return stop();
  if (is_forking_ && ++failed_forks_ < kFailedForksMax) {
    // Possibly for lack of processes or memory, or because the guardian has killed it.
    write_log(log_, LogLevel::warn,
              "--preload: " + otherwise + ": workers are started without it this time");
    return stop();
  }
  if (message.kind == "unusable" && !message.fields.empty()) {
    return give_up(printable(message.fields[0]));
  }
  if (is_late(message)) return give_up("the interpreter does not answer");
  give_up(otherwise);
}

void PreloadedPython::give_up(const std::string& reason) {
  stop();
  is_given_up_ = true;
  write_log(log_, LogLevel::warn, "--preload: workers start without preloaded modules: " + reason);
}

void PreloadedPython::stop() noexcept {
  socket_ = UniqueFd();
  is_forking_ = false;
  if (process_) {
    process_->close(Deadline::after(kInterpreterEndLimit));
    containment_.include(process_->pid());
    process_.reset();
  }
  for (auto* stream : {&standard_output_, &standard_error_}) {
    if (*stream) (*stream)->finish();
    stream->reset();
  }
}

std::string PreloadedPython::program_of(const PreloadRequest& request) const {
  return request.arguments[plan_.interpreter_words + (plan_.is_module ? 1 : 0)];
}

const char* PreloadedPython::kind_of_program() const {
  return plan_.is_module ? "module" : "script";
}

}  // namespace ddprun
