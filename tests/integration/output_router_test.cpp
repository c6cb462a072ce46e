// The path of the workers' output to console and files, with real pipes.
#include "launcher/output/console_writer.hpp"
#include "launcher/process/stacks_file.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/hold.hpp"
#include "tests/support/no_descriptors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worker_bench.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace output_router_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

WorkerSpec to_file(WorkerSpec spec, StreamTarget target, const HeldPath& file) {
  spec.standard_output.target = target;
  spec.standard_output.file = file;
  return spec;
}

}  // namespace

TEST_SUITE("output router") {
  TEST_CASE("output: lines of several workers are not mixed") {
    constexpr int kWorkers = 4, kLines = 2000;
    WorkerBench bench(kWorkers);
    std::vector<WorkerSpec> workers;
    workers.reserve(kWorkers);
    for (int i = 0; i < kWorkers; ++i) {
      workers.push_back(
          shell_worker(i, "i=0; while [ $i -lt " + std::to_string(kLines) +
                              " ]; do echo abcdefghijklmnopqrstuvwxyz; i=$((i+1)); done"));
    }
    bench.start(workers);
    bench.run_to_end();
    const auto text = bench.console();
    for (int i = 0; i < kWorkers; ++i) {
      const auto line = "[w" + std::to_string(i) + "]:abcdefghijklmnopqrstuvwxyz\n";
      CHECK(count(text, line) == kLines);
    }
    CHECK(std::count(text.begin(), text.end(), '\n') == kWorkers * kLines);
  }

  TEST_CASE("output: random bytes reach the file unchanged") {
    WorkerBench bench;
    const auto source = bench.folder() / "source", copy = bench.folder() / "copy";
    auto spec = shell_worker(
        0, "head -c 5000000 /dev/urandom >" + source.string() + "; cat " + source.string());
    spec.standard_output.is_shown = false;
    bench.start({to_file(spec, StreamTarget::tee, copy)});
    bench.run_to_end();
    CHECK(fs::file_size(copy) == 5'000'000);
    CHECK(read(copy) == read(source));
    CHECK(bench.console().empty());
  }

  TEST_CASE("output: tee writes bytes to the file and lines to the console") {
    WorkerBench bench;
    const auto file = bench.folder() / "file";
    bench.start({to_file(shell_worker(0, "printf 'a\\nb'"), StreamTarget::tee, file)});
    bench.run_to_end();
    CHECK(read(file) == "a\nb");
    CHECK(bench.console() == "[w0]:a\n[w0]:b\n");
  }

  TEST_CASE("output: long lines of several workers stay whole even if written slowly") {
    constexpr int kWorkers = 3;
    WorkerBench bench(kWorkers);
    std::vector<WorkerSpec> workers;
    for (int i = 0; i < kWorkers; ++i) {
      // With pauses longer than the wait for the end of a prompt.
      const std::string half = "head -c 300000 /dev/zero | tr '\\0' x; ";
      workers.push_back(shell_worker(i, half + "sleep 0.2; " + half + "echo"));
    }
    bench.start(workers);
    bench.run_to_end();
    for (int i = 0; i < kWorkers; ++i) {
      const auto line = "[w" + std::to_string(i) + "]:" + std::string(600'000, 'x') + "\n";
      CHECK(count(bench.console(), line) == 1);
    }
    CHECK(count(bench.console(), "\n") == kWorkers);
  }

  TEST_CASE("output: bytes of a single worker without a prefix are printed unchanged at once") {
    WorkerBench bench;
    auto spec = shell_worker(
        0, "printf '\\r 1%%\\r 2%%'; head -c 3000000 /dev/zero; printf 'a\\n\\033[Ab'; sleep 1000");
    spec.standard_output.form = spec.standard_error.form = ConsoleForm::verbatim_bytes;
    const std::string expected = "\r 1%\r 2%" + std::string(3'000'000, '\0') + "a\n\x1b[Ab";
    bench.start({spec});
    bench.run_until([&] { return bench.console().size() >= expected.size(); });
    bench.group().stop(SIGKILL, 0ms);
    bench.run_to_end();
    CHECK(bench.console() == expected);
  }

  TEST_CASE("output: verbatim lines of several workers stay whole") {
    constexpr int kWorkers = 3, kLines = 20;
    WorkerBench bench(kWorkers);
    std::vector<WorkerSpec> workers;
    for (int i = 0; i < kWorkers; ++i) {
      const std::string line = "head -c 100000 /dev/zero | tr '\\0' x; echo; ";
      auto spec = shell_worker(i, "i=0; while [ $i -lt " + std::to_string(kLines) + " ]; do " +
                                      line + "i=$((i+1)); done; printf end");
      spec.standard_output.form = spec.standard_error.form = ConsoleForm::verbatim;
      workers.push_back(spec);
    }
    bench.start(workers);
    bench.run_to_end();
    CHECK(count(bench.console(), std::string(100'000, 'x') + "\n") == kWorkers * kLines);
    CHECK(bench.console().size() == kWorkers * (kLines * 100'001 + 3));
  }

  TEST_CASE("output: a line over 1 MiB is split on the console but not in the file") {
    WorkerBench bench;
    const auto file = bench.folder() / "file";
    const auto spec = shell_worker(0, "head -c 17825792 /dev/zero | tr '\\0' x; echo");
    bench.start({to_file(spec, StreamTarget::tee, file)});
    bench.run_to_end();
    CHECK(fs::file_size(file) == 17'825'793);
    CHECK(count(bench.console(), "[w0]:") == 17);
    CHECK(count(bench.console(), "x") == 17'825'792);
  }

  TEST_CASE("output: a prompt is shown before the line ends") {
    WorkerBench bench;
    bench.start({shell_worker(0, "printf 'really? '; sleep 1000")});
    bench.run_until([&] { return bench.console() == "[w0]:really? "; });
    bench.group().stop(SIGKILL, 0ms);
    bench.run_to_end();
    CHECK(bench.console() == "[w0]:really? \n");
  }

  TEST_CASE("output: a growing line is shown before the line ends") {
    WorkerBench bench;
    bench.start({shell_worker(0, "while :; do printf .; sleep 0.01; done")});
    bench.run_until([&] { return bench.console().size() > 50; });
    bench.group().stop(SIGKILL, 0ms);
    bench.run_to_end();
    CHECK(bench.console().rfind("[w0]:...", 0) == 0);
    CHECK(count(bench.console(), "[w0]:") == 1);
  }

  TEST_CASE("output: a line interrupted by another worker continues with the prefix") {
    WorkerBench bench(2);
    const auto go = bench.folder() / "go", on = bench.folder() / "on";
    const auto wait_for = [](const fs::path& file) {
      return "while [ ! -e " + file.string() + " ]; do sleep 0.01; done; ";
    };
    bench.start({shell_worker(0, "printf '50%%'; " + wait_for(on) + "echo ' 100%'"),
                 shell_worker(1, wait_for(go) + "echo line")});
    bench.run_until([&] { return bench.console() == "[w0]:50%"; });
    std::ofstream(go).flush();
    bench.run_until([&] { return bench.console() == "[w0]:50%\n[w1]:line\n"; });
    std::ofstream(on).flush();
    bench.run_to_end();
    CHECK(bench.console() == "[w0]:50%\n[w1]:line\n[w0]: 100%\n");
  }

  TEST_CASE("output: a descendant that holds the pipe does not delay the report of the exit") {
    WorkerBench bench;
    const auto pid_file = bench.folder() / "pid";
    bench.start({shell_worker(
        0, "sh -c 'echo $$ >" + pid_file.string() + "; exec sleep 1000' & echo output; exit 4")});
    bench.run_to_end();
    CHECK(bench.history().exit_of(0).exit_code == 4);
    CHECK(bench.history().dying.size() == 1);
    CHECK(bench.console() == "[w0]:output\n");
    const auto swept = bench.sweep();
    CHECK(swept == std::vector<pid_t>{std::stoi(await_line(pid_file))});
  }

  TEST_CASE("output: a full disk causes one warning and the worker continues") {
    WorkerBench bench;
    const auto spec = shell_worker(0, "head -c 300000 /dev/zero; echo end >&2; exit 0");
    bench.start({to_file(spec, StreamTarget::file, "/dev/full")});
    bench.run_to_end();
    CHECK_FALSE(bench.history().exit_of(0).failed());
    REQUIRE(bench.log().size() == 2);
    CHECK(bench.log()[0].find("/dev/full: No space left on device") == 0);
    CHECK(bench.log()[1] ==
          "/dev/full: 300000 bytes of output are missing (No space left on device)");
  }

  TEST_CASE("output: a log file that is not a regular file is rejected with its name") {
    for (const bool is_link : {false, true}) {
      WorkerBench bench;
      const auto file = bench.folder() / "log";
      if (is_link) fs::create_symlink(bench.folder() / "other", file);
      if (!is_link) REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
      const auto result = bench.try_start({to_file(shell_worker(0, "echo text"), StreamTarget::file,
                                                   hold(bench.folder()) / "log")});
      const std::string problem =
          is_link ? "Too many levels of symbolic links" : "No such device or address";
      CHECK(std::get<WorkerNotStarted>(result).message ==
            "worker output: " + file.string() + ": " + problem);
      CHECK_FALSE(fs::exists(bench.folder() / "other"));
    }
  }

  TEST_CASE("output: a blocked log file does not block worker or agent and is reported") {
    const TemporaryFolder folder;
    const auto file = folder.path() / "log";
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    const UniqueFd reader(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    {
      WorkerBench bench;
      bench.start({to_file(shell_worker(0, "head -c 40000000 /dev/zero; exit 3"),
                           StreamTarget::file, file)});
      bench.run_to_end();
      CHECK(bench.history().exit_of(0).exit_code == 3);
      REQUIRE(bench.log().size() == 2);
      CHECK(bench.log()[0].starts_with(file.string() + ": its file system takes no output"));
      const auto beginning = file.string() + ": its file system takes no output; ";
      REQUIRE(bench.log()[1].starts_with(beginning));
      CHECK(bench.log()[1].ends_with(" bytes of output are missing from log files"));
      const auto lost = std::stoul(bench.log()[1].substr(beginning.size()));
      CHECK(lost > 39'000'000);  // all but the content of the FIFO
      CHECK(lost < 40'000'000);
    }
    // The thread was abandoned and ends once it can write.
    std::array<char, 1 << 16> bytes;
    while (::read(reader.get(), bytes.data(), bytes.size()) != 0) continue;
  }

  TEST_CASE("output: a slow log file blocks workers but loses no output") {
    const TemporaryFolder folder;
    const auto file = folder.path() / "log";
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    const UniqueFd reader(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    std::size_t received = 0;
    std::thread slow([&] {
      std::array<char, 1 << 12> bytes;  // much less than the worker writes at once
      ssize_t count = -1;
      while (count != 0) {
        pollfd readable{.fd = reader.get(), .events = POLLIN, .revents = 0};
        ::poll(&readable, 1, 20'000);
        count = ::read(reader.get(), bytes.data(), bytes.size());
        if (count > 0) received += static_cast<std::size_t>(count);
      }
    });
    {
      WorkerBench bench;
      bench.start(
          {to_file(shell_worker(0, "head -c 40000000 /dev/zero"), StreamTarget::file, file)});
      bench.run_to_end();
      CHECK(bench.log().empty());
    }
    slow.join();
    CHECK(received == 40'000'000);
  }

  TEST_CASE("output: a log file that cannot be created is reported with its name") {
    WorkerBench bench;
    const auto spec = to_file(shell_worker(0, ""), StreamTarget::file, "/no/such/folder/log");
    const auto result = bench.try_start({spec});
    CHECK(std::get<WorkerNotStarted>(result).message ==
          "worker output: /no/such/folder/log: No such file or directory");
    CHECK(std::get<WorkerNotStarted>(result).ends_the_run);
  }

  TEST_CASE("output: links do not redirect output to other files") {
    const TemporaryFolder folder;
    const auto log = folder.path() / "log";
    fs::create_symlink(folder.path() / "other", log);
    WorkerBench bench;
    const auto refusal = log.string() + ": Too many levels of symbolic links";
    const auto spec = to_file(shell_worker(0, ""), StreamTarget::file, log);
    CHECK(std::get<WorkerNotStarted>(bench.try_start({spec})).message ==
          "worker output: " + refusal);
    CHECK(append_stacks(log, {}) == refusal);
    CHECK_FALSE(fs::exists(folder.path() / "other"));
  }
}

TEST_SUITE("console") {
  /// A router whose console is an unread pipe.
  struct SilentConsole {
    SilentConsole() {
      REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
      router = std::make_unique<OutputRouter>(
          io.get_executor(),
          OutputRouter::Console{.standard_output = pipe[1], .standard_error = pipe[1]},
          [this](LogLevel, std::string_view line) {
            log.emplace_back(line);
            // Like the program, which prints its warnings on the same console.
            if (log.size() < 100) router->write(std::string(line) + "\n");
          });
      group = std::make_unique<WorkerGroup>(io.get_executor(), 0, containment, *router,
                                            control::ControlPage::create(1));
    }
    ~SilentConsole() {
      group.reset();
      router.reset();
      io.restart();
      io.run();
      for (const int end : pipe) {
        if (end >= 0) ::close(end);
      }
    }

    std::optional<WorkerExited> run(const std::string& script) {
      std::optional<WorkerExited> exited;
      StartRetry retry(io.get_executor(), false);
      auto running = [](WorkerGroup& workers, StartRetry& tries, std::vector<WorkerSpec> specs,
                        std::optional<WorkerExited>& out) -> boost::asio::awaitable<void> {
        auto starting = workers.start(std::move(specs), tries);
        const auto started = co_await std::move(starting);
        REQUIRE(std::holds_alternative<std::vector<WorkerStarted>>(started));
        const auto news = co_await workers.next();
        out = std::get<WorkerExited>(news);
      }(*group, retry, {shell_worker(0, script)}, exited);
      boost::asio::co_spawn(io, std::move(running), boost::asio::detached);
      while (!exited && io.run_one_for(20s) > 0) {
      }
      return exited;
    }

    /// Reads until the router has no pending output; returns everything.
    std::string drain() {
      std::string text;
      const auto is_done = std::make_unique<bool>(false);
      auto draining = [](OutputRouter& out, bool& done) -> boost::asio::awaitable<void> {
        co_await out.drain(Deadline::after(20s));
        done = true;
      }(*router, *is_done);
      boost::asio::co_spawn(io, std::move(draining), boost::asio::detached);
      ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
      std::array<char, 65536> bytes;
      while (!*is_done) {
        io.restart();
        io.run_one_for(10ms);
        for (ssize_t n = 0; (n = ::read(pipe[0], bytes.data(), bytes.size())) > 0;)
          text.append(bytes.data(), static_cast<std::size_t>(n));
      }
      return text;
    }

    std::array<int, 2> pipe{};
    boost::asio::io_context io;
    Containment containment;
    std::vector<std::string> log;
    std::unique_ptr<OutputRouter> router;
    std::unique_ptr<WorkerGroup> group;
  };

  TEST_CASE("output: an unread console does not block workers and lost output is reported") {
    SilentConsole console;
    const auto exited = console.run("yes 0123456789 | head -c 11000000");
    REQUIRE(exited.has_value());
    CHECK_FALSE(exited->failed());
    CHECK((::fcntl(console.pipe[1], F_GETFL) & O_NONBLOCK) == 0);
    const auto text = console.drain();
    CHECK(text.size() < 2U << 20);
    const auto notice = text.find("[ddprun] ");
    REQUIRE(notice != std::string::npos);
    const auto shown = count(text.substr(0, notice), "[w0]:0123456789\n");
    CHECK(std::stoul(text.substr(notice + 9)) == 1'000'000 - shown);
    CHECK(text.ends_with("the console did not accept them in time\n"));
  }

  TEST_CASE("output: lines beyond twice the console's limit are dropped at once") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const UniqueFd reader(ends[0]), writer(ends[1]);
    boost::asio::io_context io;
    const auto console =
        std::make_shared<ConsoleWriter>(io.get_executor(), writer.get(), false, Log());
    LinePrefixer source{"", LinePrefixer::Form::verbatim};
    const std::string line = std::string(1023, 'x') + "\n";
    // No time passes for the console's patience, since the loop does not run.
    for (int i = 0; i < 4096; ++i) console->write(source, line);
    ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
    std::string text;
    std::array<char, 65536> bytes;
    for (bool is_done = false; !is_done;) {
      is_done = console->is_idle();
      for (ssize_t n = 0; (n = ::read(reader.get(), bytes.data(), bytes.size())) > 0;)
        text.append(bytes.data(), static_cast<std::size_t>(n));
      io.restart();
      io.run_one_for(10ms);
    }
    CHECK(text.find(" lines (") != std::string::npos);
    CHECK(text.size() > 2 * kConsoleBytesMax);
    CHECK(text.size() < 5 * kConsoleBytesMax / 2);
    console->close();
    io.restart();
    io.run();
  }

  TEST_CASE("output: a console that cannot be watched is an error") {
    boost::asio::io_context io;
    const boost::asio::steady_timer opens_descriptors_of_the_loop(io);
    const NoDescriptors until_the_end;
    CHECK_THROWS_AS(std::make_shared<ConsoleWriter>(io.get_executor(), STDERR_FILENO, false, Log()),
                    Error);
  }

  TEST_CASE("output: a closed console causes one warning and no further writes") {
    SilentConsole console;
    ::close(std::exchange(console.pipe[0], -1));
    const auto exited = console.run("yes | head -c 1000000");
    REQUIRE(exited.has_value());
    CHECK_FALSE(exited->failed());
    REQUIRE(console.log.size() == 1);
    CHECK(console.log[0].find("console: Broken pipe") == 0);
  }
}

}  // namespace output_router_test
